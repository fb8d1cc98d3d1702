"""How long the upgrade of a large home takes: `python -m tests.benchmarks.migration --json`."""
