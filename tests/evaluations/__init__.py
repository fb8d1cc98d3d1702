"""Evaluations: attempts made at a worker, what they come to on the site."""
