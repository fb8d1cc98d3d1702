"""Signature of a failure: its message without what differs from item to item."""

from __future__ import annotations

import re

from synthesis.formats.values import clean

LONGEST = 300
_REPLACED = (
    (re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|“[^”]*”"), "'…'"),
    (re.compile(r"\b[0-9a-fA-F]{8,}\b"), "#"),
    (re.compile(r"\d+(\.\d+)?"), "0"),
    (re.compile(r"\s+"), " "),
)


def signature_of(stage: str, reason: str, message: str) -> str:
    """`stage: reason: message` with quoted parts, hashes and numbers taken out."""
    words = clean(message)[:2_000]
    for pattern, instead in _REPLACED:
        words = pattern.sub(instead, words)
    return f"{stage}: {reason}: {words.strip()}"[:LONGEST]
