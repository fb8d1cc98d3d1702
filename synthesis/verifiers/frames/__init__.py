"""Frames in two parts: the values allowed in a place, and the comparison of an end state with a frame."""
