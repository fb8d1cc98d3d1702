"""Datasets: frozen selections of tasks or trajectories, and uploaded files."""
