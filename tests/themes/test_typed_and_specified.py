"""Themes that need no model: typed ones and those of MCP servers."""

from __future__ import annotations

import pytest

from synthesis.errors import InputError
from synthesis.formats.records import ThemeRecord, ToolSpec
from synthesis.themes.keys import KEY
from synthesis.themes.specifications import build_specified_theme
from synthesis.themes.typed import build_typed_theme

WORDS = "Staff lend books to members, take them back and keep a waiting list for each title."


def test_a_typed_theme_has_a_key_of_its_words() -> None:
    one = build_typed_theme("  Library\n desk ", WORDS, "Education")
    assert (one.name, one.description, one.category, one.origin) == ("Library desk", WORDS, "Education", "typed")
    assert one.key.startswith("library-desk-")
    assert one.key == build_typed_theme("Library desk", f" {WORDS}\r\n", "Education").key
    assert one.key != build_typed_theme("Library desk", f"{WORDS} Daily.", "Education").key
    assert all(
        KEY.fullmatch(build_typed_theme(name, WORDS).key) for name in ("図書館", "../../etc", "A" * 120, "-", "é/è\x00")
    )


@pytest.mark.parametrize(
    ("name", "description", "category", "said"),
    [
        ("", WORDS, "", "name is missing"),
        ("Desk", " ", "", "description is missing"),
        ("Desk", "A desk.", "", "at least 20"),
        ("Desk", "x" * 1_000_000, "", "Shorten it"),
        ("x" * 121, WORDS, "", "at most 120"),
        ("Desk", WORDS, "y" * 121, "category"),
    ],
)
def test_what_cannot_be_a_theme_says_what_to_change(name: str, description: str, category: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        build_typed_theme(name, description, category)
    assert len(str(raised.value)) < 200


def test_a_server_is_cut_to_what_a_prompt_holds() -> None:
    tools = tuple(ToolSpec(name=f"t{n}", description="d" * 5_000, parameters={"x": "y" * 10_000}) for n in range(300))
    record = ThemeRecord(key="7", name="N" * 300, description="o" * 50_000, primary="Weather", tools=tools)
    draft = build_specified_theme(record, "servers")
    assert (draft.origin, draft.category) == ("servers", "Weather")
    assert [tool.name for tool in draft.tools] == [tool.name for tool in tools], "no tool is left out"
    assert draft.tools[0].parameters == {"type": "object"}
    assert len(draft.model_dump_json()) < 700_000
    assert draft.key == build_specified_theme(record, "servers").key
    assert draft.key != build_specified_theme(record.model_copy(update={"key": "8"}), "servers").key


def test_a_server_without_words_is_described_by_its_tools() -> None:
    record = ThemeRecord(key="7", name="Forecast", tools=(ToolSpec(name="get_forecast"),))
    assert "1 tools" in build_specified_theme(record, "servers").description
    with pytest.raises(InputError, match="neither"):
        build_specified_theme(record.model_copy(update={"tools": ()}), "servers")
