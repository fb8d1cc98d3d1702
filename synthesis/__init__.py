"""How environments, tasks and trajectories are made; framework-free."""
