"""The replay page: a trajectory step by step, with the state and the checks at each."""
