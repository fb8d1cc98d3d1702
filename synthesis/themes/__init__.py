"""Themes: what environments are grown from, discovered in task sets (ES 3.1), taken from MCP servers, or typed."""
