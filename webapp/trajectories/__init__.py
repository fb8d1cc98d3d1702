"""Trajectories, steps, scores and the replay."""
