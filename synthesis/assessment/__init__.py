"""What is wrong with an environment or a task: by reading it, by probing it, by running its checks."""
