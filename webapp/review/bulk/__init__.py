"""One decision on many tasks: a forecast of its effects, task by task, and the action."""
