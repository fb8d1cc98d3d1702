"""Variants of a reference that are found only by execution: accepted alterations, unasked calls, other ends."""
