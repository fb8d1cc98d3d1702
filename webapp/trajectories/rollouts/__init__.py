"""Agents act: a job of attempts at a task, followed while it runs."""
