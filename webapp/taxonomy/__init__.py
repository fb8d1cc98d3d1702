"""Taxonomy: the three-level tree of labels with its counts, and the themes that hang on it.

A theme hangs on the node of its labels, an environment on that of its category (`labels.py`); `services.place` alone
makes nodes. The counts that an environment adds to its node are in its own row: code that writes a task, an audit or a
trajectory calls `webapp/environments/totals.py` (for trajectories `webapp/trajectories/totals.py`) last in the same
transaction, which adds to that row and to the `NodeCounts` of the node and its ancestors, locked in one order:
environment, tree, task. `manage.py recount_taxonomy` counts the rows anew and reports what differed.

`importer.py` takes MCP servers, `theme_services.py` typed themes and those that a batch discovered, and counts what was
judged of each source. Near-duplicates have a package of their own (`near_duplicates/`), and so have changes of the tree
(`changes/`): `former.py` follows a node or a path that they removed to what it became. `coverage.py` measures how well
labels are covered.
"""
