"""Runs as a file that comes in again anywhere, with the environments and tasks that they rest on.

`written_records.py` spells runs with what they rest on, each version and revision once, as environments and scenarios
are exported; `mixed_file.py` sorts the records of such a file and stores what runs bring along: what is here already
stays as it is. `run_parts.py` finds what the format of runs has no field for; an import puts it back.
"""
