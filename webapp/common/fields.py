"""Model fields for data whose key order and odd characters must survive PostgreSQL."""

from __future__ import annotations

import json
from typing import Any

from django.db import models
from psycopg.types.json import Json


class OrderedJSONField(models.JSONField):
    """JSON in PostgreSQL's `json` type: key order kept, `\\u0000` and lone surrogates kept as escapes.

    `jsonb` sorts keys and refuses both; environments may depend on the order of their records. No lookups
    into the document are offered: what pages filter by has a column of its own.
    """

    def db_type(self, connection: Any) -> str:
        return "json"

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return None if value is None else Json(value, dumps=json.dumps)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return value  # psycopg has read it: a string is the document "a string", not its source
