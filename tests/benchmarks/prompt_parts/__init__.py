"""Recorded requests of a batch, asked as they are today."""
