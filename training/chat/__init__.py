"""Conversations as tokens: what others wrote in them is kept apart from a template's own marks."""
