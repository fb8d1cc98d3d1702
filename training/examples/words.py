"""Window of the demo's model, and the pieces of text that its tokenizer never joins: no token holds more than one.

No torch.
"""

from __future__ import annotations

import re
from itertools import islice

WINDOW = 1024
"""Tokens that the demo's model reads at once."""
PIECES = r'\n?\{"name": "|", "arguments": \{"|[a-z_]+": "?|", "|\{"|"\}\}\n?|\}\}\n?|"\}|\d|[A-Za-z_]+|\s|[^\sA-Za-z\d]'
_PIECE = re.compile(PIECES)


def count_pieces(text: str, most: int) -> int:
    """Return the number of pieces of a text, counted up to `most`: it has no fewer tokens."""
    return sum(1 for _ in islice(_PIECE.finditer(text), most))
