"""Parsers in a process of their own: what is uploaded is read by a fresh interpreter within limits, never by a server.

`read_apart` (`process.py`) runs a named function of ours in `child.py`, with limits of memory, processor and wall
time; the file goes in as a descriptor, what was read comes back as lines of JSON, bounded.
"""

from synthesis.parser.process import ReadLimits, TooCostly, read_apart

__all__ = ["ReadLimits", "TooCostly", "read_apart"]
