"""Edits of tools and tasks in a browser."""
