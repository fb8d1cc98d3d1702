"""Real tool documents through all that needs no model; only where ENVARIUM_TEST_DATA names their folder."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from synthesis.errors import Rejected
from synthesis.runtime import Sandbox
from synthesis.skeleton.documented_tools import MOST_TOOLS
from synthesis.themes.specifications import build_specified_theme
from synthesis.tool_documents.document_reader import read_document
from tests.tool_documents.stub_author import grow

pytestmark = pytest.mark.data
SERVERS = 40


def list_documents(folder: Path) -> list[tuple[str, bytes]]:
    """Forty MCP servers, each as its own list of tools, and whatever OpenAPI documents lie beside them."""
    with gzip.open(folder / "mcp_servers/servers.jsonl.gz", "rt") as lines:
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    chosen = rows[:: len(rows) // SERVERS][:SERVERS]
    lists = [{"name": row["name"], "description": row["overview"], "tools": row["tools"]} for row in chosen]
    servers = [(f"{row['name']}.json", json.dumps(row).encode()) for row in lists]
    return servers + [(path.name, path.read_bytes()) for path in sorted((folder / "openapi").glob("*"))]


def test_real_documents_become_programs_with_all_their_tools(real_data: Path, sandbox: Sandbox) -> None:
    grown = 0
    for name, content in list_documents(real_data):
        record = read_document(content, name)
        theme = build_specified_theme(record, "documents")
        assert [tool.name for tool in theme.tools] == [tool.name for tool in record.tools], name
        if len(theme.tools) > MOST_TOOLS:
            with pytest.raises(Rejected, match="Split the document"):
                grow(theme, sandbox)
            continue
        made = grow(theme, sandbox)
        assert len(made.built.record.tools) == len(record.tools), name
        for tool, operation in zip(theme.tools, made.plan.operations, strict=True):
            assert f"- {tool.name!r}: " in made.asked_state, name
            assert f"- {operation.name!r}: " in made.asked_tools, name
            fields = operation.parameters["properties"] if operation.parameters else {}
            assert all(json.dumps(field, ensure_ascii=False) in made.asked_tools for field in fields), (name, tool.name)
        assert (made.built.repairs, made.built.invalid_before_repair) == (0, ()), name
        grown += 1
    assert grown >= SERVERS - 2
