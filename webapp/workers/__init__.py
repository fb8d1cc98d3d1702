"""Training workers: their rows, the jobs that they claim, what they send, what they fetch."""
