"""Tool documents in plain Markdown: one heading per tool, followed by a description and a list or table of parameters.

A heading names a tool if it is written as code, is a name as in programs (`book_table`, `book_table(day)`,
`orders.cancel`) or a request (`GET /tables`). Other headings group tools. Text before the first tool describes all of
them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from markdown_it.token import Token

from synthesis.errors import FormatError
from synthesis.formats.mcp import MAX_TOOLS, TOOL_NAME
from synthesis.formats.records import ToolSpec
from synthesis.formats.values import clean_text
from synthesis.json_reader import read_json
from synthesis.tool_documents.markdown_sections import (
    Block,
    MarkdownSection,
    is_list,
    read_items,
    read_paragraph,
    read_rows,
    split_sections,
)

TOOL = re.compile(r"(?P<name>[^\W\d][\w.\-/]*)\s*(?P<call>\(.*\))?")
REQUEST = re.compile(r"(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)\s+/\S*")
PARAMETER = re.compile(
    r"\*{0,2}`?(?P<name>[A-Za-z_][\w.\-]*)`?\*{0,2}\s*(?:[(\[](?P<kind>[^)\]]*)[)\]])?\s*(?:[:\u2013\u2014-]\s*(?P<about>.*))?",
    re.DOTALL,
)
PARAMETER_HEADS = re.compile(r"(parameters?|arguments?|inputs?|takes|input schema)\b:?", re.IGNORECASE)
RETURN_HEADS = re.compile(r"(returns?|results?|outputs?|response)\b:?", re.IGNORECASE)
TYPES = {
    "str": "string", "string": "string", "text": "string", "int": "integer", "integer": "integer",
    "float": "number", "number": "number", "bool": "boolean", "boolean": "boolean",
    "list": "array", "array": "array", "object": "object", "dict": "object",
}  # fmt: skip
REQUIRED, OPTIONAL = (
    re.compile(r"\brequired\b|\byes\b|\btrue\b", re.IGNORECASE),
    re.compile(r"\boptional\b", re.IGNORECASE),
)


@dataclass
class _Section:
    """A heading with the content below it, up to the next one."""

    title: str
    line: int
    level: int
    is_code: bool = False
    words: list[str] = field(default_factory=list)
    parameters: list[dict[str, Any]] = field(default_factory=list)
    schema: dict[str, Any] | None = None

    @property
    def place(self) -> str:
        return f"line {self.line}"


def read_markdown(text: str) -> tuple[str, str, tuple[ToolSpec, ...]]:
    """Read the title, the common description, and the tools in their order. Raises FormatError with the line."""
    sections = [_read_section(section) for section in split_sections(text)]
    title = next((section.title for section in sections if section.level == 1 and not _name_tool(section)), "")
    about, tools = _find_tools(sections, title)
    if not tools:
        reason = (
            "no heading names a tool; write each tool as a heading such as ## `book_table(day, guests)`, "
            "or import product requirements as such"
        )
        raise FormatError("", reason)
    return title, "\n\n".join(about), tuple(tool for _, tool in tools)


def read_named_tools(
    given: list[MarkdownSection],
) -> tuple[list[tuple[str, ToolSpec]], list[MarkdownSection]]:
    """Read the tools that headings name, each with its place, and return the sections before the first.

    Raises FormatError.
    """
    sections = [_read_section(section) for section in given]
    first = next((index for index, section in enumerate(sections) if _name_tool(section)), len(sections))
    _, tools = _find_tools(sections[first:], "")
    return tools, given[:first]


def _find_tools(sections: list[_Section], title: str) -> tuple[list[str], list[tuple[str, ToolSpec]]]:
    """Return the text before the first tool, and the tools with their places. Raises FormatError."""
    about: list[str] = []
    tools: list[tuple[_Section, ToolSpec]] = []
    open_tool: _Section | None = None
    other_heading: _Section | None = None  # a heading between tools that names none
    below: list[_Section] = []
    for section in sections:
        if _name_tool(section):
            if open_tool is not None:
                tools.append((open_tool, _build_tool(open_tool, below)))
            open_tool, other_heading, below = section, None, []
        elif open_tool is None:
            about += [section.title] * bool(section.title and section.title != title) + section.words
            if other_heading is None or not PARAMETER_HEADS.fullmatch(section.title):
                other_heading = section
            if other_heading.title:
                _require_no_tool(other_heading, section)
        elif section.level <= (open_tool if other_heading is None else other_heading).level:
            other_heading = section
            _require_no_tool(section, section)
        elif other_heading is not None:
            _require_no_tool(other_heading, section)
        else:
            below.append(section)
    if open_tool is not None:
        tools.append((open_tool, _build_tool(open_tool, below)))
    _require_few_names(tools)
    return about, [(section.place, tool) for section, tool in tools]


def _require_no_tool(heading: _Section, below: _Section) -> None:
    """Raise FormatError if the content below a heading that names no tool lists a tool's parameters."""
    typed = any("type" in parameter["schema"] for parameter in below.parameters)
    if typed or below.schema is not None or PARAMETER_HEADS.fullmatch(below.title):
        name = re.sub(r"\W+", "_", heading.title.lower(), flags=re.ASCII).strip("_") or "book_table"
        reason = f"{heading.title[:80]!r} says what a tool takes, but names none; write its heading as `{name}`"
        raise FormatError(heading.place, reason)


def _require_few_names(tools: list[tuple[_Section, ToolSpec]]) -> None:
    if len(tools) > MAX_TOOLS:
        raise FormatError("", f"{len(tools):,} tools; {MAX_TOOLS:,} are allowed")
    seen: dict[str, str] = {}
    for section, tool in tools:
        first = seen.setdefault(tool.name, section.place)
        if first != section.place:
            raise FormatError(section.place, f"{tool.name!r} is also the tool at {first}")


def _name_tool(section: _Section) -> str:
    """Return the name of the tool that a heading names, or an empty text."""
    title = section.title.strip()
    match = TOOL.fullmatch(title)
    if match is None:
        return title if len(title) <= TOOL_NAME and (section.is_code or REQUEST.fullmatch(title)) else ""
    name, looks_like_code = match["name"], section.is_code or match["call"]
    is_name = bool(re.search(r"[a-z0-9][A-Z]|_|\.", name)) or name.islower()
    return (
        name
        if looks_like_code
        or (is_name and section.level > 1 and not PARAMETER_HEADS.fullmatch(name) and not RETURN_HEADS.fullmatch(name))
        else ""
    )


def _read_section(given: MarkdownSection) -> _Section:
    """Read the content below a heading as words, parameters and schema."""
    section = _Section(given.title, given.line, given.level, given.is_code)
    for block in given.blocks:
        _add_block(section, block)
    return section


def _add_block(section: _Section, block: Block) -> None:
    """Add one block of Markdown to its section."""
    kind = block[0].type
    if kind in ("fence", "code_block"):
        _add_code(section, block[0])
    elif kind == "table_open":
        _add_table(section, block)
    elif is_list(block):
        items = read_items(block)
        parameters = [_read_parameter(item) for item in items]
        if items and all(parameter is not None for parameter in parameters):
            section.parameters += [parameter for parameter in parameters if parameter is not None]
        else:
            section.words.append("\n".join(f"- {item}" for item in items))
    elif words := read_paragraph(block):
        section.words.append(words)


def _add_code(section: _Section, token: Token) -> None:
    """Take a fenced JSON schema of an object as the tool's parameters; other code stays part of the words."""
    if (token.info or "").strip().lower() in ("json", "") and token.content.lstrip().startswith("{"):
        place = f"line {(token.map or [0])[0] + 1}"
        try:
            value = read_json(token.content, place, broken_text=True)
        except FormatError:
            value = None
        if isinstance(value, dict) and value.get("type") == "object" and isinstance(value.get("properties"), dict):
            section.schema = value
            return
    section.words.append(clean_text(token.content.rstrip()))


def _add_table(section: _Section, block: Block) -> None:
    """Take a table whose first column contains names as the tool's parameters."""
    rows = read_rows(block)
    heads = [head.lower() for head in rows[0]] if rows else []
    names = ("name", "parameter", "argument", "field", "input")
    if not heads or not any(heads[0].startswith(name) for name in names):
        section.words.append("\n".join(" | ".join(row) for row in rows))
        return
    columns = {
        column: next((place for place, head in enumerate(heads) if head.startswith(starts)), None)
        for column, starts in {
            "kind": ("type",),
            "required": ("required", "optional"),
            "about": ("desc", "meaning"),
        }.items()
    }
    for row in rows[1:]:
        cells = {column: row[place] for column, place in columns.items() if place is not None and place < len(row)}
        required_text = cells.get("required", "required")
        section.parameters.append(
            _build_parameter(row[0].strip("`* "), f"{cells.get('kind', '')}, {required_text}", cells.get("about", ""))
        )


def _read_parameter(item: str) -> dict[str, Any] | None:
    """Read an item such as `name` (type, required): description. Return None if it has another form."""
    match = PARAMETER.fullmatch(item.strip())
    if match is None or (match["kind"] is None and match["about"] is None and not item.strip().startswith("`")):
        return None
    return _build_parameter(match["name"], match["kind"] or "", match["about"] or "")


def _build_parameter(name: str, kind: str, about: str) -> dict[str, Any]:
    """Build one parameter, without a type if no word states it."""
    words = re.findall(r"[a-z]+", kind.lower())
    schema: dict[str, Any] = {}
    known_type = next((TYPES[word] for word in words if word in TYPES), None)
    if known_type is not None:
        schema["type"] = known_type
    if about.strip():
        schema["description"] = about.strip()
    is_required = not OPTIONAL.search(kind) and not re.search(r"\bno\b|\bfalse\b", kind, re.IGNORECASE)
    return {"name": clean_text(name), "schema": schema, "required": is_required}


def _build_tool(section: _Section, below: list[_Section]) -> ToolSpec:
    """Build a tool of its heading's section and of those below it (parameters, returns, examples)."""
    words = list(section.words)
    parameters, schema = list(section.parameters), section.schema
    for part in below:
        if RETURN_HEADS.fullmatch(part.title):
            listed_fields = [f"- {item['name']}: {item['schema'].get('description', '')}" for item in part.parameters]
            words += ["Returns: " + "\n".join([*part.words, *listed_fields])]
        elif PARAMETER_HEADS.fullmatch(part.title):
            parameters += part.parameters
            schema = schema or part.schema
            words += part.words
        else:
            words += [part.title, *part.words]
            parameters += part.parameters
            schema = schema or part.schema
    name = _name_tool(section)
    if schema is None:
        schema = _join_parameters(parameters, section, name)
    return ToolSpec(name=name, description="\n\n".join(word for word in words if word.strip()), parameters=schema)


def _join_parameters(parameters: list[dict[str, Any]], section: _Section, name: str) -> dict[str, Any]:
    """Join parameters to one schema; those that only the heading's call names are part of it. Raises FormatError."""
    properties: dict[str, Any] = {}
    required = []
    for parameter in parameters:
        if parameter["name"] in properties:
            raise FormatError(section.place, f"{name} takes {parameter['name']!r} twice")
        properties[parameter["name"]] = parameter["schema"]
        required += [parameter["name"]] if parameter["required"] else []
    match = TOOL.fullmatch(section.title.strip())
    called = re.findall(r"[A-Za-z_]\w*(?=\s*(?:[:=,)]|$))", (match["call"] if match and match["call"] else "()")[1:])
    if not properties and called:
        properties = {argument: {} for argument in called}
        required = called
    return {"type": "object", "properties": properties, "required": required}
