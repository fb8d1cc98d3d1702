"""Synthesis of environments, tasks and trajectories; framework-free.

`pipeline.py` is the table of contents: stages by level (theme, scenario, task, trajectory), the drafts (`drafts.py`)
that each takes and returns, a barrier at which themes are compared, and the items below a kept one. `stages.py` defines
the inputs of a stage and how it asks, `stage_adapters.py` hands them to its work. `contracts/` has the frozen types
that cross every boundary, `errors.py` the one vocabulary of errors. `collector.py` excludes loaded objects from garbage
collection, here and in the other packages.
"""
