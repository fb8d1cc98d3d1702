"""The launch of a batch: its form, what it is to grow, and an estimate of what it takes."""
