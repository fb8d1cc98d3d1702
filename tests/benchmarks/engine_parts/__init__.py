"""The server that an engine is measured with."""
