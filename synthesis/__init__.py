"""Synthesis: how environments, tasks and trajectories are made; framework-free.

`pipeline.py` is the table of contents: stages by level (theme, scenario, task, trajectory), the drafts (`drafts.py`)
that each takes and gives, a barrier where themes are compared, and the items below a kept one. `stages.py` is what a
stage is given and how it asks. `contracts/` has the frozen types that cross every boundary, `errors.py` the one
vocabulary of errors. `collector.py` keeps the garbage collector off what a process loads, here and in the rooms above.
"""
