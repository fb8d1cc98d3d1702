"""Background jobs: the row, its lease, claims, progress, log and reaper."""
