"""Signature of a failure: its message without the parts that differ between items."""

from __future__ import annotations

import re

from synthesis.formats.values import clean_text

LONGEST = 300
_REPLACED = (
    (re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|“[^”]*”"), "'…'"),
    (re.compile(r"\b[0-9a-fA-F]{8,}\b"), "#"),
    (re.compile(r"\d+(\.\d+)?"), "0"),
    (re.compile(r"\s+"), " "),
)


def build_failure_signature(stage: str, reason: str, message: str) -> str:
    """Return `stage: reason: message` without quoted parts, hashes and numbers."""
    words = clean_text(message)[:2_000]
    for pattern, instead in _REPLACED:
        words = pattern.sub(instead, words)
    return f"{stage}: {reason}: {words.strip()}"[:LONGEST]
