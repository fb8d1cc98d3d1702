"""What flags a trajectory for review: a person who put a flag on it, or a rule that looks at how it ended."""
