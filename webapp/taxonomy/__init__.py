"""Taxonomy: the three-level tree of labels, and the themes that hang on it."""
