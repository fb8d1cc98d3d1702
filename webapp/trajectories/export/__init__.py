"""Export of stored trajectories as training data: selected, filtered, each export with its manifest."""
