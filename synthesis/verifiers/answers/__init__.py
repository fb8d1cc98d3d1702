"""Answers as audits vary them: the values that were asked for, where they stand, and how else they are spelled."""
