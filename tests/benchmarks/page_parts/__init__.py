"""What the benchmark of pages measures in a browser."""
