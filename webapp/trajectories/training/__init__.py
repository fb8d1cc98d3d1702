"""Stored trajectories as training data: selected, filtered, in a trainer's format, each export with its manifest."""
