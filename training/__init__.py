"""Framework-free training; runs on a GPU box that has no database."""
