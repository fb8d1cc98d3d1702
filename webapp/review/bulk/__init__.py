"""One decision on many tasks: a forecast of what it would do, task by task, and the act."""
