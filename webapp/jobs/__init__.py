"""What every background job shares: the row, its lease, attempts, progress, log and reaper."""
