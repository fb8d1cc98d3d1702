"""One decision on many tasks: what it would do, forecast task by task, and the act. Its pages: `decision_views.bulk`."""
