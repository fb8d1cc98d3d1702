"""Frames in two parts: what may stand in a place, and an end state held against a frame."""
