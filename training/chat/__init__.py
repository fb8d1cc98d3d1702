"""Conversations as tokens: text of messages is kept apart from a template's own marks."""
