"""The launch of a training job: its form, what it names, its preflight checks and estimates."""
