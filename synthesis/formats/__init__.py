"""Records as they come in and go out; one module a format."""
