"""Runs as a file that any site can import, with the environments and tasks that they depend on.

`written_records.py` writes runs with their prerequisites, each version and revision once, as environments and scenarios
are exported; `webapp/trajectories/importer.py` sorts the records of such a file and stores the prerequisites: existing
rows stay as they are. `run_parts.py` finds the parts that the format of runs has no field for; an import restores them.
"""
