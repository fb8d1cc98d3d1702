"""Near-duplicate themes: found, folded into one, and every decision undone on request."""
