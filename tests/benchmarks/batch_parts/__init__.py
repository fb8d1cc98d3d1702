"""What the benchmark of batches runs besides the short pipeline: the real ones, with replies recorded and served."""
