"""Parsers in a process of their own: a fresh interpreter with limits reads uploaded files, never a server.

`read_in_process` (`process.py`) runs a named function of ours in `child.py`, with limits of memory, processor and wall
time; the file goes in as a descriptor, the items come back as lines of JSON, bounded.
"""

from synthesis.parser.process import ReadLimits, TooCostly, read_in_process

__all__ = ["ReadLimits", "TooCostly", "read_in_process"]
