"""How content is addressed everywhere: by the hash of its JSON."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

Saved = Literal["created", "unchanged", "updated"]
"""What became of a record that came in."""


def content_hash(content: Any) -> str:
    """SHA-256 of a value's JSON with key order kept: two spellings of one record are two contents."""
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
