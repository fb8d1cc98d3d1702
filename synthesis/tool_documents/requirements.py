"""Product requirement documents in Markdown (Agent-World 3.1, third source): background, workflows and interfaces.

The words of a heading determine its subject (ours). Each heading or list item below one on workflows is a workflow;
items below one on interfaces are tools that an environment may have. Everything else is part of the description.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from synthesis.errors import FormatError
from synthesis.formats.mcp import MAX_TOOLS, TOOL_NAME
from synthesis.formats.records import DocumentText, ToolSpec, Workflow
from synthesis.formats.values import clean_text, shorten_text
from synthesis.tool_documents.markdown import read_named_tools
from synthesis.tool_documents.markdown_sections import (
    Block,
    MarkdownSection,
    format_line,
    is_list,
    read_block,
    read_items,
    read_rows,
    split_sections,
)

Part = Literal["background", "workflows", "interfaces", "other"]
SUBJECTS: dict[Part, re.Pattern[str]] = {
    "workflows": re.compile(
        r"\b(work ?flows?|(user|process|business|domain) (flows?|journeys?|stories|processes)|use cases?|processes)\b",
        re.IGNORECASE,
    ),
    "interfaces": re.compile(
        r"\b(interfaces?|apis?|endpoints?|integrations?|operations|features|functional requirements)\b", re.IGNORECASE
    ),
    "background": re.compile(
        r"\b(background|overview|context|introduction|purpose|summary|problem|vision)\b", re.IGNORECASE
    ),
}
NON_FUNCTIONAL = re.compile(r"\bnon[- ]?functional\b", re.IGNORECASE)
EXAMPLES = {
    "background": "`## Background`", "workflows": "`## Workflows`", "interfaces": "`## System interfaces`",
}  # fmt: skip
ONE_WORKFLOW = re.compile(
    r"(?:workflow|use case|user story|process)\s*[\w.]{0,4}(?:\s*:|\s+[\u2013\u2014-])\s+(.+)", re.IGNORECASE
)
NUMBER = re.compile(r"^\s*\d+(\.\d+)*[.)]?\s+")
NAMED_ITEM = re.compile(
    r"(?:\*\*(?P<bold>[^*\n]+?):?\*\*|`(?P<code>[^`\n]+)`|(?P<plain>[^\n:\u2013\u2014]{1,80}?)(?=\s*(?::\s|\s[\u2013\u2014-]\s)))"
    r"\s*(?:[:\u2013\u2014-]\s*)?(?P<rest>.*)",
    re.DOTALL,
)
STORY_START = re.compile(r"\s*^(?=\W*as an? )", re.IGNORECASE | re.MULTILINE)
NUMBER_HEAD = re.compile(r"#|no\.?|id|nr\.?|ref\.?|", re.IGNORECASE)
KIND = re.compile(r"(product )?requirements? ?(document|specification)?|\(?prd(\.md)?\)?", re.IGNORECASE)
"""What titles say of the kind of document, and not of the product."""
NAME_CHARS = 200
MOST_WORKFLOWS = 60
MOST_STEPS = 60
STEP_CHARS = 600
WORKFLOW_CHARS = 20_000
"""Of all workflows together: prompts show them whole."""


@dataclass
class _Chapter:
    """A heading with the sections below it, up to the next one of its level or above."""

    head: MarkdownSection
    part: Part
    below: list[MarkdownSection] = field(default_factory=list)

    @property
    def sections(self) -> list[MarkdownSection]:
        return [self.head, *self.below]


def read_requirements(text: str) -> DocumentText:
    """Read a product requirement document. Raises FormatError with the line of the error, or the missing part."""
    sections = split_sections(text)
    title = _find_title(sections)
    chapters = _split_chapters([section for section in sections if section is not title])
    _require_parts(chapters, sections)
    workflows = [flow for chapter in chapters if chapter.part == "workflows" for flow in _read_workflows(chapter)]
    _require_few_workflows(workflows)
    tools: list[ToolSpec] = []
    about = [read_block(block) for block in title.blocks] if title is not None else []
    for chapter in chapters:
        if chapter.part == "interfaces":
            words = _read_interfaces(chapter, tools)
        elif chapter.part == "workflows":
            words = _write_introduction(chapter)
        else:
            words = _write_out(chapter.sections)
        about += words
    return DocumentText(
        _read_name(sections, title),
        "\n\n".join(words for words in about if words.strip()),
        _join_tools(tools),
        workflows=tuple(flow for _, flow in workflows),
    )


def _find_title(sections: list[MarkdownSection]) -> MarkdownSection | None:
    """Find the only heading of the first level, if it precedes all others."""
    heads = [section for section in sections if section.level]
    alone = len(heads) > 1 and sum(section.level == 1 for section in heads) == 1
    return heads[0] if alone and heads[0].level == 1 else None


def _read_name(sections: list[MarkdownSection], title: MarkdownSection | None) -> str:
    """Return the product's name in a title; if there is none, the heading below it if that has no other subject."""
    if title is None:
        return ""
    after = sections[sections.index(title) + 1]
    for head in (title, after) if not after.blocks and _choose_part(after.title) == "other" else (title,):
        name = NUMBER.sub("", KIND.sub("", head.title)).strip(" -:|()\u2013\u2014&,")
        if len(name) > 2:
            return name
    return ""


def _choose_part(title: str) -> Part:
    if NON_FUNCTIONAL.search(title):
        return "other"
    if ONE_WORKFLOW.fullmatch(NUMBER.sub("", title)):
        return "workflows"
    return next((part for part, words in SUBJECTS.items() if words.search(title)), "other")


def _split_chapters(sections: list[MarkdownSection]) -> list[_Chapter]:
    """Split at headings that name a part, and at those that are no deeper than the one before."""
    chapters: list[_Chapter] = []
    for section in sections:
        part = _choose_part(section.title)
        last = chapters[-1] if chapters else None
        is_below = last is not None and section.level > last.head.level
        if last is not None and is_below and (last.part != "other" or part == "other"):
            last.below.append(section)
        else:
            chapters.append(_Chapter(section, part))
    return chapters


def _require_parts(chapters: list[_Chapter], sections: list[MarkdownSection]) -> None:
    missing = [part for part in EXAMPLES if not any(chapter.part == part for chapter in chapters)]
    if missing:
        heads = [f"{section.title[:60]!r} (line {section.line})" for section in sections if section.level][:12]
        headings_text = f"its headings are {', '.join(heads)}" if heads else "it has no headings"
        wanted_parts = " and ".join(f"{part} (such as {EXAMPLES[part]})" for part in missing)
        raise FormatError("line 1", f"no heading speaks of {wanted_parts}; {headings_text}")
    for chapter in chapters:
        if chapter.part != "other" and not any(section.blocks for section in chapter.sections):
            raise FormatError(chapter.head.place, f"there is no text below {chapter.head.title[:80]!r}")


def _read_workflows(chapter: _Chapter) -> list[tuple[str, Workflow]]:
    """Read the workflows of a chapter, each with its place. Raises FormatError."""
    head = chapter.head
    single = ONE_WORKFLOW.fullmatch(NUMBER.sub("", head.title))
    if single or (not chapter.below and _holds_steps(head)):
        return [_build_workflow(head, single[1] if single else NUMBER.sub("", head.title), chapter.below)]
    workflows: list[tuple[str, Workflow]] = []
    for block in head.blocks:
        workflows += _read_listed(block)
    level = min((section.level for section in chapter.below), default=0)
    for index, section in enumerate(chapter.below):
        if section.level == level:
            later_sections = chapter.below[index + 1 :]
            end = next((place for place, one in enumerate(later_sections) if one.level <= level), len(later_sections))
            title_match = ONE_WORKFLOW.fullmatch(NUMBER.sub("", section.title))
            workflows.append(
                _build_workflow(
                    section, title_match[1] if title_match else NUMBER.sub("", section.title), later_sections[:end]
                )
            )
    if not workflows:
        reason = (
            f"{head.title[:80]!r} names no workflow; give each a heading with its steps below, or an item of a list"
        )
        raise FormatError(head.place, reason)
    return workflows


def _holds_steps(section: MarkdownSection) -> bool:
    """Return whether a section on one workflow contains its steps: one numbered list."""
    lists = [block for block in section.blocks if is_list(block)]
    return len(lists) == 1 and lists[0][0].type == "ordered_list_open" and not re.search(r"s\b", section.title)


def _read_listed(block: Block) -> list[tuple[str, Workflow]]:
    """Read a block whose items are workflows: a list, in which steps are nested, a table, or user stories."""
    place = format_line(block)
    if block[0].type == "table_open":
        return [(place, flow) for flow in _read_table(read_rows(block))]
    if not is_list(block):
        text = read_block(block).strip()
        stories = [story for story in STORY_START.split(text) if story]
        return [(place, _name_workflow(story)) for story in stories] if STORY_START.match(text) else []
    workflows = []
    for first, steps in filter(any, _read_nested(block)):
        name_match = NAMED_ITEM.fullmatch(first)
        item_rest = name_match["rest"].strip() if name_match else ""
        parts = [part for part in re.split(r"\s*(?:\u2192|->|;)\s*", item_rest) if part]
        name = (name_match["bold"] or name_match["code"] or name_match["plain"]) if name_match else first
        workflows.append((place, _name_workflow(name, (*parts, *steps))))
    return workflows


def _name_workflow(name: str, steps: tuple[str, ...] = ()) -> Workflow:
    """Build a workflow from its name, on one line; a name that is too long is also kept in full as its description."""
    name = " ".join(name.split())
    return Workflow(name=shorten_text(name, NAME_CHARS), about=name if len(name) > NAME_CHARS else "", steps=steps)


def _read_table(rows: list[list[str]]) -> list[Workflow]:
    """Read a table as workflows: named by the first column that is no number, or by all columns if it names two
    alike.
    """
    skipped = int(bool(rows) and len(rows[0]) > 1 and NUMBER_HEAD.fullmatch(rows[0][0]) is not None)
    cells = [[cell for cell in row[skipped:] if cell] for row in rows[1:]]
    cells = [row for row in cells if row]
    if len({row[0] for row in cells}) < len(cells):
        return [_name_workflow(" | ".join(row)) for row in cells]
    return [_name_workflow(row[0], tuple(row[1:])) for row in cells]


def _read_nested(block: Block) -> list[tuple[str, list[str]]]:
    """Return the items of a list, each with those that are nested in it."""
    items: list[tuple[list[str], list[str]]] = []
    for token in block:
        if token.type == "list_item_open" and token.level == block[0].level + 1:
            items.append(([], []))
        elif token.type == "inline" and items:
            own_words, nested = items[-1]
            (own_words if token.level == block[0].level + 3 else nested).append(
                clean_text(" ".join(token.content.split()))
            )
    return [(" ".join(own), nested) for own, nested in items]


def _write_introduction(chapter: _Chapter) -> list[str]:
    """Return the content below the heading of several workflows that is none of them."""
    if ONE_WORKFLOW.fullmatch(NUMBER.sub("", chapter.head.title)) or not (
        chapter.below or len(chapter.head.blocks) > 1
    ):
        return []
    if not chapter.below and _holds_steps(chapter.head):
        return []
    return [read_block(block) for block in chapter.head.blocks if not _read_listed(block)]


def _build_workflow(head: MarkdownSection, name: str, below: list[MarkdownSection]) -> tuple[str, Workflow]:
    """Build a workflow from a heading and the content below it. Raises FormatError: it is empty."""
    about: list[str] = []
    steps: list[str] = []
    for section in (head, *below):
        about += [section.title] if section is not head else []
        for block in section.blocks:
            if is_list(block):
                steps += [step for first, nested in _read_nested(block) for step in (first, *nested) if step]
            else:
                about.append(read_block(block))
    about = [words for words in about if words]
    if not steps and not about:
        raise FormatError(head.place, f"the workflow {name[:80]!r} has no steps")
    return head.place, Workflow(name=shorten_text(name, 200), about="\n".join(about), steps=tuple(steps))


def _require_few_workflows(workflows: list[tuple[str, Workflow]]) -> None:
    if len(workflows) > MOST_WORKFLOWS:
        raise FormatError(workflows[MOST_WORKFLOWS][0], f"{len(workflows)} workflows; {MOST_WORKFLOWS} are allowed")
    seen: dict[str, str] = {}
    for place, flow in workflows:
        if len(flow.steps) > MOST_STEPS:
            raise FormatError(place, f"the workflow {flow.name[:80]!r} has {len(flow.steps)} steps; {MOST_STEPS} fit")
        long = next((step for step in flow.steps if len(step) > STEP_CHARS), None)
        if long is not None:
            reason = f"a step of {flow.name[:80]!r} has {len(long):,} characters; {STEP_CHARS} are allowed"
            raise FormatError(place, reason)
        if flow.name.casefold() in seen:
            raise FormatError(place, f"{flow.name[:80]!r} is also the workflow at {seen[flow.name.casefold()]}")
        seen[flow.name.casefold()] = place
    written_chars = sum(len(flow.model_dump_json()) for _, flow in workflows)
    if written_chars > WORKFLOW_CHARS:
        reason = (
            f"the workflows have {written_chars:,} characters; {WORKFLOW_CHARS:,} are allowed: shorten or split them"
        )
        raise FormatError(workflows[0][0], reason)


def _read_interfaces(chapter: _Chapter, tools: list[ToolSpec]) -> list[str]:
    """Add the tools of a chapter to `tools`; return its other words. Raises FormatError.

    Tools are headings that name one, items of a list or table directly below the chapter's heading or written as code,
    and the other headings of the first level below it, with all their content.
    """
    named_tools, other_sections = read_named_tools(chapter.sections)
    tools += [tool for _, tool in named_tools]
    words: list[str] = []
    level = min((section.level for section in other_sections[1:]), default=0)
    groups: list[list[MarkdownSection]] = []
    for section in other_sections:
        if section is chapter.head or section.level == level:
            groups.append([section])
        else:
            groups[-1].append(section)
    for head, *below in groups:
        listed_tools = [
            tool for block in head.blocks for tool in _read_interface_list(block, only_code=head is not chapter.head)
        ]
        tools += listed_tools
        if listed_tools or head is chapter.head:
            other_blocks = [
                read_block(block) for block in head.blocks if not (listed_tools and _read_interface_list(block))
            ]
            words += ["\n".join([head.title, *other_blocks])] * bool(other_blocks) + _write_out(below)
        else:
            about = "\n".join([*(read_block(block) for block in head.blocks), *_write_out(below)])
            tools.append(ToolSpec(name=shorten_text(NUMBER.sub("", head.title), TOOL_NAME), description=about))
    return words


def _read_interface_list(block: Block, *, only_code: bool = False) -> list[ToolSpec]:
    """Read a list or table of interfaces as tools; empty if an item does not begin with a name."""
    if block[0].type == "table_open" and not only_code:
        rows = [row for row in read_rows(block)[1:] if row and row[0]]
        return [ToolSpec(name=row[0].strip("`* "), description=": ".join(filter(None, row[1:]))) for row in rows]
    matches = [NAMED_ITEM.fullmatch(item) for item in read_items(block)] if is_list(block) else []
    if not all(match is not None and (match["code"] or not only_code) for match in matches):
        return []
    named_items = [(match["bold"] or match["code"] or match["plain"], match["rest"]) for match in matches if match]
    return [ToolSpec(name=shorten_text(name, TOOL_NAME), description=about.strip()) for name, about in named_items]


def _join_tools(tools: list[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Join descriptions of one interface from several places. Raises FormatError: there are too many."""
    joined: dict[str, ToolSpec] = {}
    for tool in tools:
        known_tool = joined.get(tool.name)
        about = "\n\n".join(filter(None, [known_tool.description if known_tool else "", tool.description]))
        joined[tool.name] = tool.model_copy(update={"description": about})
    if len(joined) > MAX_TOOLS:
        raise FormatError("", f"{len(joined):,} interfaces; {MAX_TOOLS:,} are allowed")
    return tuple(joined.values())


def _write_out(sections: list[MarkdownSection]) -> list[str]:
    """Return sections as text, each below its heading."""
    written = []
    for section in sections:
        words = [read_block(block) for block in section.blocks]
        written += ["\n".join([*filter(None, [NUMBER.sub("", section.title)]), *words])] if words else []
    return written
