"""Template filters and tags of every page."""
