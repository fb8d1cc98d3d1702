"""Cases of `data_truth`: (name, function that raises AssertionError where training data says another thing)."""
