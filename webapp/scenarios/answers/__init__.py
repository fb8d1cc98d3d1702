"""Answer forms of stored tasks: read, shown, and entered field by field."""
