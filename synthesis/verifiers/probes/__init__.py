"""Variants of a reference that only trying them can find: accepted alterations, unasked calls, other ends."""
