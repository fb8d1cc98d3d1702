"""Public ids in OpenAI's style: a prefix that names the kind of object, then 24 random letters and digits."""

from __future__ import annotations

import secrets
from functools import partial

from django.db import models


def new_id(prefix: str) -> str:
    """Return a new public id: `ftjob-` and 24 hexadecimal digits, for example."""
    return f"{prefix}-{secrets.token_hex(12)}"


def public_id_field(prefix: str) -> models.CharField[str, str]:
    """Return the column that holds an object's public id."""
    return models.CharField(max_length=48, unique=True, default=partial(new_id, prefix), editable=False)
