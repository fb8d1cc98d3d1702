"""Template filters of tasks and audits."""
