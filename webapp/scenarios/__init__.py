"""Scenarios, tasks, task revisions, checks; EnvScaler import and export."""
