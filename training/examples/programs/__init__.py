"""The demo's programs, each a file that the sandbox loads as text."""
