"""Flags on trajectories for review: put by a person, or by a rule on how the trajectory ended."""
