"""Templates can be read: narrow, indented, one block-level element a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source_files import ROOT

COLUMNS = 120
LINES = 300
MARGIN = 10
"""Lines that a part may gain at another indentation."""
BLOCKS = (
    "article|aside|div|dl|fieldset|footer|form|h[1-6]|header|li|main|nav|ol|p|section|table|tbody|td|th|thead|tr|ul"
)
SECOND = re.compile(rf"</({BLOCKS})>.*?<({BLOCKS})\b")
"""A block-level element that begins behind the end of another, on its line."""


def templates() -> Iterator[tuple[Path, list[str]]]:
    for path in sorted((ROOT / "templates").rglob("*.html")):
        yield path.relative_to(ROOT), path.read_text().splitlines()


def test_lines_are_narrow_and_indented_by_two_spaces() -> None:
    wrong = []
    for path, lines in templates():
        for number, line in enumerate(lines, 1):
            indent = re.match(r"\s*", line).group()  # type: ignore[union-attr]
            if len(line) > COLUMNS:
                wrong.append(f"{path}:{number}: {len(line)} columns")
            if indent.strip(" ") or len(indent) % 2:
                wrong.append(f"{path}:{number}: indented by {indent!r}")
    assert not wrong, "\n".join(wrong)


def test_a_line_holds_one_block_level_element() -> None:
    wrong = [
        f"{path}:{number}: {line.strip()[:80]}"
        for path, lines in templates()
        for number, line in enumerate(lines, 1)
        if SECOND.search(line)
    ]
    assert not wrong, "\n".join(wrong)


def test_a_screen_is_one_file_that_can_be_read() -> None:
    wrong = [f"{path}: {len(lines)} lines" for path, lines in templates() if len(lines) > LINES]
    assert not wrong, "\n".join(wrong)


def test_what_one_screen_shows_is_not_in_a_file_of_its_own() -> None:
    """A part has a file if two templates include it, a view renders it, it extends another, or its screen is full."""
    texts = {path.relative_to("templates").as_posix(): lines for path, lines in templates()}
    users: dict[str, list[str]] = {}
    for user, lines in texts.items():
        for part in re.findall(r"""{%\s*(?:include|extends)\s+["']([^"']+)["']""", "\n".join(lines)):
            users.setdefault(part, []).append(user)
    python = "\n".join(path.read_text() for path in (ROOT / "webapp").rglob("*.py"))
    wrong = [
        f"{part}: only {users[part][0]} includes it, which has {len(texts[users[part][0]])} lines"
        for part, lines in texts.items()
        if len(users.get(part, ())) == 1
        and not re.search(r"{%\s*(extends|block)\b", "\n".join(lines))
        and part.removesuffix(".html").removesuffix("_part") not in python
        and len(lines) + len(texts[users[part][0]]) + MARGIN <= LINES
    ]
    assert not wrong, "\n".join(wrong)


def test_no_page_or_text_holds_an_unresolved_conflict() -> None:
    """Python's own compiler finds these in code; a page shows them."""
    paths = [path for name in ("templates", "static", "docs", "synthesis/prompts") for path in (ROOT / name).rglob("*")]
    texts = {".html", ".css", ".js", ".md", ".svg", ".txt"}
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line[:40]}"
        for path in [*paths, *ROOT.glob("*.md")]
        if path.suffix in texts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.match(r"(<{7}|>{7})( |$)", line)
    ]
    assert not wrong, "\n".join(wrong)
