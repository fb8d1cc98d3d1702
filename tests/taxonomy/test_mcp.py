"""MCP servers as a file gives them: what goes in, and what is refused with its place and reason."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from synthesis.formats import mcp
from synthesis.formats.files import UnreadableFile
from synthesis.formats.records import Failure, ThemeRecord
from tests.taxonomy.samples import SCHEMA, entries, server, write


def only(**fields: Any) -> ThemeRecord | Failure:
    ((_, record),) = mcp.parse_themes(entries(server(**fields)))
    return record


def good(**fields: Any) -> ThemeRecord:
    record = only(**fields)
    assert isinstance(record, ThemeRecord), record
    return record


def test_a_server_is_a_theme_with_its_tools_and_labels() -> None:
    record = good()
    assert (record.key, record.name, record.usage) == ("0", "Forecast 0", 1204)
    assert record.labels == ("Weather", "API Integration", "Travel & Maps", "Storm Warnings")
    assert record.tools[0].parameters == SCHEMA


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"usage_count": 7}, "usage", 7),
        ({"usage_count": "Not available"}, "usage", None),
        ({"usage_count": True}, "usage", None),
        ({"custom_label": None}, "custom", ""),
        ({"custom_label": "No secondary labels needed."}, "custom", ""),
        ({"custom_label": "no labels deemed necessary here"}, "custom", ""),
        ({"custom_label": "Observability\n Note: not in the list."}, "custom", "Observability"),
        ({"custom_label": "No additional relevant categories needed"}, "custom", ""),
        ({"custom_label": "No-code Labels"}, "custom", "No-code Labels"),
        ({"secondary_labels": None}, "secondary", ()),
        ({"secondary_labels": '["Gaming"]'}, "secondary", ("Gaming",)),
        ({"secondary_labels": "Gaming"}, "secondary", ("Gaming",)),
        ({"primary_label": None}, "primary", ""),
        ({"server_id": None}, "key", "Forecast 0"),
        ({"name": "two\n lines\u0000"}, "name", "two lines\u2400"),
    ],
)
def test_other_forms_of_the_same(fields: dict[str, Any], name: str, value: Any) -> None:
    assert getattr(good(**fields), name) == value


@pytest.mark.parametrize(
    "tool", [{"inputSchema": SCHEMA}, {"parameters": SCHEMA}, {"input_schema": '{"type": "object"}'}, {}]
)
def test_schemas_under_other_names(tool: dict[str, Any]) -> None:
    found = good(tools=[{"name": "t", **tool}]).tools[0].parameters
    assert found == (SCHEMA if "input_schema" not in tool and tool else {"type": "object"} if tool else None)


def test_parameters_as_a_plain_list_are_kept_as_they_came() -> None:
    listed = [{"name": "city", "type": "string", "required": True}]
    assert good(tools=[{"name": "t", "input_schema": listed}]).tools[0].parameters == listed


def test_two_tools_of_one_name_stay_two() -> None:
    assert len(good(tools=[{"name": "t"}, {"name": "t"}]).tools) == 2


@pytest.mark.parametrize(
    ("fields", "place", "reason"),
    [
        ({"name": ""}, "line 1.name", "empty"),
        ({"name": 7}, "line 1.name", "expected text"),
        ({"tools": []}, "line 1.tools", "without tools"),
        ({"tools": {"a": 1}}, "line 1.tools", "expected a list"),
        ({"tools": [{"name": " "}]}, "line 1.tools[0].name", "empty"),
        ({"tools": ["t"]}, "line 1.tools[0]", "not valid JSON"),
        ({"tools": [{"name": "t", "input_schema": 5}]}, "line 1.tools[0].input_schema", "found a number"),
        ({"tools": [{"name": "t" * 201}]}, "line 1.tools[0].name", "200 are allowed"),
        ({"tools": [{"name": "t"}] * 1001}, "line 1.tools", "1000 are allowed"),
        ({"primary_label": 3}, "line 1.primary_label", "expected text"),
        ({"secondary_labels": [1]}, "line 1.secondary_labels[0]", "expected text"),
        ({"server_id": [1]}, "line 1.server_id", "expected an id"),
    ],
)
def test_what_means_nothing_is_refused_where_it_stands(fields: dict[str, Any], place: str, reason: str) -> None:
    record = only(**fields)
    assert isinstance(record, Failure)
    assert record.place == place
    assert reason in record.reason


def test_a_bad_line_does_not_stop_the_others_and_an_id_counts_once(tmp_path: Path) -> None:
    path = write(tmp_path / "servers.jsonl", server(1), server(1, name="Another"), server(2))
    path.write_text(path.read_text() + "\n{not json\n[]\n" + '{"name": NaN}')
    found = [record for _, record in mcp.parse_themes(mcp.read_servers(path))]
    assert [type(one) for one in found] == [ThemeRecord, Failure, ThemeRecord, Failure, Failure, Failure]
    failures = [one for one in found if isinstance(one, Failure)]
    assert "is already at line 1" in failures[0].reason
    assert [one.place for one in failures] == ["line 2", "line 4", "line 5", "line 6.name"]
    assert "found a list" in failures[2].reason
    assert "NaN" in failures[3].reason


def test_gzip_is_read_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(mcp.read_servers(write(tmp_path / "a.jsonl.gz", server(1), server(2)))) == 2
    monkeypatch.setattr(mcp, "MAX_FILE_BYTES", 1 << 20)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b" " * (8 << 20)))
    with pytest.raises(UnreadableFile, match="larger than 1 MiB"):
        mcp.read_servers(tmp_path / "bomb.gz")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"{}" * 9000)[:-20])
    with pytest.raises(UnreadableFile, match="damaged"):
        mcp.read_servers(tmp_path / "cut.gz")


def test_servers_and_their_size_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "MAX_SERVER_CHARACTERS", 2000)
    record = only(overview="x" * 3000)
    assert isinstance(record, Failure)
    assert "2000 are allowed" in record.reason
    monkeypatch.setattr(mcp, "MAX_SERVERS", 1)
    with pytest.raises(UnreadableFile, match="split it"):
        mcp.require_few_servers(entries(server(1), server(2)), "servers.jsonl")


@pytest.mark.data
def test_the_real_servers_all_go_in(real_data: Path) -> None:
    found = [one for _, one in mcp.parse_themes(mcp.read_servers(real_data / "mcp_servers" / "servers.jsonl.gz"))]
    assert len(found) == 2120
    assert sum(len(one.tools) for one in found if isinstance(one, ThemeRecord)) == 17_578
