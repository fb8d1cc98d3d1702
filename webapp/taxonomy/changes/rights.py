"""Rights to change the tree."""

from __future__ import annotations

from typing import Any

from webapp.accounts.access import TREE_EDITORS
from webapp.common.errors import Conflict


def may_reshape(user: Any) -> bool:
    return getattr(user, "role", "") in TREE_EDITORS


def require_reshaper(user: Any) -> None:
    if not may_reshape(user):
        words = "Adjudicators, researchers and operators change the tree. Ask one of them, or open a labelling session."
        raise Conflict(words, code="not_yours")
