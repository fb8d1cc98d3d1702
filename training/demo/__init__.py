"""The demo: a model of about a million parameters, its environments and its teachers, made on the spot."""
