"""Parts of the benchmark `chaos`: who is killed, and the work that goes on meanwhile."""
