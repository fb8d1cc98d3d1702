"""Datasets, training jobs and the workers that carry them out."""
