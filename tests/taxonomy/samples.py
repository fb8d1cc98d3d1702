"""Small MCP servers in the shape of the real file, and environments with a category."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from synthesis.formats.files import Entry, parse_entries
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from webapp.environments.models import Environment
from webapp.environments.services import save_environment

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SOURCE = (
    "class Desk:\n    def __init__(self):\n        self.rows = {}\n\n    def look(self, key: str):\n        return 1\n"
)


def server(number: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "server_id": number,
        "name": f"Forecast {number}",
        "usage_count": "1,204",
        "overview": "Forecasts by city.",
        "primary_label": "Weather",
        "secondary_labels": ["API Integration", "Travel & Maps"],
        "custom_label": "Storm Warnings",
        "tools": [{"name": "get_forecast", "description": "A forecast.", "input_schema": SCHEMA}],
        **fields,
    }


def entries(*servers: Any) -> list[Entry]:
    return parse_entries("\n".join(map(json.dumps, servers)).encode(), "servers.jsonl")


def write(path: Path, *servers: Any) -> Path:
    content = "\n".join(map(json.dumps, servers)).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def environment(key: str, category: str = "Weather", summary: str = "") -> Environment:
    """Through the importers' service, as every environment comes in."""
    raw = {"env_id": key, "category": category, "environment_summary": summary}
    record = EnvironmentRecord(
        key=key,
        name=f"Desk {key}",
        category=category,
        summary=summary,
        class_name="Desk",
        source=SOURCE,
        tools=(ToolRecord(name="look"),),
        raw=raw,
    )
    return save_environment(record, [], "test")[1]
