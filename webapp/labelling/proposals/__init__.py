"""Proposals of models: a model labels as an annotator who never counts, hidden until the round is closed."""
