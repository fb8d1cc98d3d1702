"""Training jobs: asked for over pages and the API, followed by curves, walked from a point to its rollouts."""
