"""Themes inverted from tools and tasks: what is asked, of which themes, and that a bad reply is no data."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from synthesis.drafts import ThemeDraft
from synthesis.errors import MalformedReply
from synthesis.pipeline import ENVSCALER
from synthesis.runtime import Sandbox
from synthesis.scripted.library import load_theme
from synthesis.stages import ItemSpec, Kit
from synthesis.themes.inversion import sample_tasks
from synthesis.themes.specifications import build_specified_theme
from synthesis.tool_documents.document_reader import read_document
from tests.scripted.walk import kit_of
from tests.skeleton.support import Author, kit

TOOLS = [{"name": "find_pots", "description": "Find pots.", "parameters": {"type": "object", "properties": {"p": {}}}}]
NAMED = {
    "reasoning": "Pots are lent.",
    "name": "Plant swap\nshelf",
    "description": "Neighbours put pots on a shelf, look them up by plant and take others home. A neighbour holds two "
    "pots at most, and a pot that somebody holds cannot be taken.",
    "category": "Community",
}


def theme_of(**more: Any) -> ThemeDraft:
    document = {"tools": TOOLS} | more
    return build_specified_theme(read_document(json.dumps(document).encode(), "functions.json"), "documents")


def discover(own: Kit, theme: ThemeDraft) -> ThemeDraft:
    run = ENVSCALER.stage("discover").run
    assert run is not None
    found: ThemeDraft = asyncio.run(run(own, ItemSpec(theme=theme, key=theme.key)))
    return found


def author(*replies: Any) -> Author:
    made = Author()
    made.said["invert_tools"] = [json.dumps(reply) for reply in replies]
    return made


def test_mere_tools_get_the_name_and_description_that_they_imply() -> None:
    theme, by = theme_of(tasks=["Which ferns are there?", {"query": "Take the ivy\nhome."}]), author(NAMED)
    found = discover(kit(by), theme)
    assert (found.name, found.category) == ("Plant swap shelf", "Community")
    assert found.description == NAMED["description"]
    assert (found.key, found.tools, found.origin) == (theme.key, theme.tools, "documents")
    (words,) = by.heard("invert_tools")
    assert '- \'find_pots\': Find pots.\n  takes: {"type":"object"' in words
    assert "- Which ferns are there?\n- Take the ivy home." in words


def test_what_is_described_is_not_asked_about_unless_tasks_tell_more() -> None:
    described = theme_of(description="A shelf of pots.")
    assert discover(kit(author()), described) is described
    by = author(NAMED)
    discover(kit(by), theme_of(description="A shelf of pots.", tasks=["Take the ivy."]))
    assert "A shelf of pots." in by.heard("invert_tools")[0]
    requirements = described.model_copy(update={"origin": "requirements"})
    assert discover(kit(author()), requirements) is requirements


@pytest.mark.parametrize("bad", [NAMED | {"description": "Pots."}, NAMED | {"name": ""}, {"name": "Plant swap"}])
def test_a_reply_that_says_too_little_is_asked_for_again_and_never_kept(bad: Any) -> None:
    by = author(bad, NAMED)
    assert discover(kit(by), theme_of()).category == "Community"
    assert by.places == ["invert_tools", "invert_tools"]
    with pytest.raises(MalformedReply):
        discover(kit(author(bad)), theme_of())


def test_of_many_tasks_an_even_sample_is_shown() -> None:
    tasks = [f"{number:04}" + "x" * 96 for number in range(1_000)]
    assert sample_tasks(tasks, 1_000) == tasks[::100]
    assert sample_tasks(["x" * 5_000], 1_000) == ["x" * 5_000]
    assert sample_tasks([], 10) == []


def test_the_scripted_provider_plays_it(sandbox: Sandbox) -> None:
    with kit_of(sandbox, "climbing-gym") as own:
        found = discover(own, theme_of().model_copy(update={"key": "climbing-gym"}))
    assert found.name == load_theme("climbing-gym").theme["name"]
