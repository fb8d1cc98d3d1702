"""Product requirements: their workflows reach the planner whole, and what is missing is said with its line."""

from __future__ import annotations

import asyncio

import pytest

from synthesis.errors import InputError
from synthesis.formats.records import ThemeRecord, Workflow
from synthesis.skeleton import plan_environment
from synthesis.themes.specifications import build_specified_theme
from synthesis.tool_documents.document_reader import read_document
from tests.skeleton.support import Author, kit

LIBRARY = """# Loan desk of a tool library

## 1. Background

Members borrow tools from volunteers.

## 2. Workflows

What happens at the desk.

### 2.1 Lend a tool

1. The member asks for a tool
   by its name.
2. The volunteer looks it up:
   - on the shelf
   - in the list
3. It is lent for 14 days.

### 2.2 Take a tool back

The volunteer looks at it.

- It is whole: it goes back.

## 3. System interfaces

The desk has a screen.

- `find_tool`: finds tools by name
- **Write off** - takes a broken tool out

### `take_back(loan, is_broken)`

Takes it back.

## 4. Non-functional requirements

A member holds three tools at most.
"""


def read(text: str, name: str = "desk.md") -> ThemeRecord:
    return read_document(text.encode(), name, kind="requirements")


def test_a_document_gives_background_workflows_and_interfaces() -> None:
    theme = read(LIBRARY)
    assert theme.name == "Loan desk of a tool library"
    assert theme.workflows == (
        Workflow(
            name="Lend a tool",
            steps=(
                "The member asks for a tool by its name.",
                "The volunteer looks it up:", "on the shelf", "in the list",
                "It is lent for 14 days.",
            ),
        ),
        Workflow(name="Take a tool back", about="The volunteer looks at it.", steps=("It is whole: it goes back.",)),
    )  # fmt: skip
    assert {tool.name: tool.description for tool in theme.tools} == {
        "find_tool": "finds tools by name", "Write off": "takes a broken tool out", "take_back": "Takes it back.",
    }  # fmt: skip
    for words in ("Members borrow", "What happens", "has a screen", "three tools at most"):
        assert words in theme.description, "what is of no part is kept"


@pytest.mark.parametrize(
    ("workflows", "expected"),
    [
        ("## Use cases\n\n- **Lend**: ask → look up → lend\n- Count the shelf\n", {
            "Lend": ("ask", "look up", "lend"), "Count the shelf": ()}),
        ("## Workflow: Lend\n\n1. Ask\n2. Lend\n\n## Workflow 2: Count\n\nEach week.\n", {
            "Lend": ("Ask", "Lend"), "Count": ()}),
        ("## User flows\n\n| Flow | What happens | Who |\n|---|---|---|\n| Lend | Ask, lend | Ada |\n", {
            "Lend": ("Ask, lend", "Ada")}),
        ("## User stories\n\n| # | As | Story |\n|---|---|---|\n| 1 | Ada | Lend |\n| 2 | Ada | Count |\n", {
            "Ada | Lend": (), "Ada | Count": ()}),
        ("## User stories\n\n```text\nAs a member, I want to lend.\n\nAs an owner, I want to count.\n```\n", {
            "As a member, I want to lend.": (), "As an owner, I want to count.": ()}),
    ],
)  # fmt: skip
def test_workflows_are_read_in_each_of_their_forms(workflows: str, expected: dict[str, tuple[str, ...]]) -> None:
    text = f"# Desk\n\n## Purpose\n\nLoans.\n\n{workflows}\n## API\n\n- `lend`: lends\n"
    assert {flow.name: flow.steps for flow in read(text).workflows} == expected


PARTS = "# Desk\n\n## Context\n\nLoans.\n\n## Workflows\n\n{}\n\n## Interfaces\n\n{}\n"


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("# Desk\n\n## Overview\n\nLoans.\n\n## Goals\n\nFew.\n", "line 1",
         r"workflows \(such as `## Workflows`\) and interfaces .* are 'Desk' \(line 1\), 'Overview' \(line 3\)"),
        ("Loans.\n", "line 1", "it has no headings"),
        (PARTS.format("", "- `lend`: lends"), "line 7", "there is no text below 'Workflows'"),
        (PARTS.format("They are many.", "- `lend`: lends"), "line 7", "names no workflow"),
        (PARTS.format("### Lend\n\n### Count\n\n- Go", "- `lend`: lends"), "line 9", "'Lend' has no steps"),
        (PARTS.format("- **Lend**: ask\n\n### lend\n\n- Go", "- `lend`: lends"), "line 11", "also .* at line 9"),
        (PARTS.format("\n".join(f"- Flow {n}" for n in range(61)), "- `lend`: x"), "line 9", "61 workflows; 60 are"),
        (PARTS.format("- **Lend**: " + "a" * 601, "- `lend`: lends"), "line 9", "601 characters"),
    ],
)  # fmt: skip
def test_what_is_missing_or_too_much_is_said_with_its_line(text: str, place: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as raised:
        read(text)
    assert str(raised.value).startswith(place)


def test_features_below_headings_are_interfaces_with_all_that_is_said_of_them() -> None:
    features = """# PRD: Desk

## Overview

Loans.

## User stories

- As a member, I want to lend.

## Core features

### F1 - Lending

- **Purpose:** Lends.
- **Inputs:** A tool.

#### Edge cases

None.

### F2 - Returns

- **Purpose:** Takes back.

## API

### Loans

- `POST /loans`: lends
- `GET /loans`

### F2 - Returns

At once.
"""
    theme = read(features)
    assert theme.name == "Desk"
    assert {tool.name: tool.description for tool in theme.tools} == {
        "F1 - Lending": "- **Purpose:** Lends.\n- **Inputs:** A tool.\nEdge cases\nNone.",
        "F2 - Returns": "- **Purpose:** Takes back.\n\nAt once.",
        "POST /loans": "lends",
        "GET /loans": "",
    }
    named = read("# Product requirements document (PRD)\n\n## Tool library\n\n" + LIBRARY.partition("\n\n")[2])
    assert named.name == "Tool library"


def test_the_planner_is_told_every_workflow_and_chooses_the_tools() -> None:
    author = Author()
    asyncio.run(plan_environment(kit(author), build_specified_theme(read(LIBRARY), "requirements")))
    assert author.places == ["plan_state", "plan_operations"]
    for words in (author.heard(place)[0] for place in author.places):
        assert "let each of them be carried out" in words
        assert "1. Lend a tool\n   - The member asks for a tool by its name.\n" in words
        assert "2. Take a tool back: The volunteer looks at it.\n   - It is whole" in words
        assert "- 'find_tool': finds tools by name" in words
