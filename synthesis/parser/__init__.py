"""Parsers in a process of their own: what is uploaded is read by a fresh interpreter within limits, never by a server.

`read_apart` (`process.py`) runs a named function of ours in `child.py`, with limits of memory, processor and wall
time; the file goes in as a descriptor, what was read comes back as lines of JSON, bounded. `require_few_values`
(`json_size.py`) counts what a text of JSON would build before any of it is built.
"""

from synthesis.parser.json_size import MOST_VALUES, require_few_values
from synthesis.parser.process import ReadLimits, TooCostly, read_apart

__all__ = ["MOST_VALUES", "ReadLimits", "TooCostly", "read_apart", "require_few_values"]
