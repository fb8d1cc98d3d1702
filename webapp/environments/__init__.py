"""Environments, their immutable versions, tools and findings."""
