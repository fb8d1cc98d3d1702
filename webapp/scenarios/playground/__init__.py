"""The playground: trying the tools of an environment in an episode of one's own."""
