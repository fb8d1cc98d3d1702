"""A tool document of any kind, recognised and read as one theme."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import IO, Any

from synthesis.errors import FormatError
from synthesis.formats.files import decode
from synthesis.formats.mcp import LABEL, NAME, TEXT
from synthesis.formats.records import ThemeRecord, ToolSpec
from synthesis.formats.values import clean, shorten
from synthesis.themes.keys import slug
from synthesis.tool_documents.markdown import read_markdown
from synthesis.tool_documents.openapi import is_openapi, read_operations
from synthesis.tool_documents.tool_lists import read_tool_list
from synthesis.tool_documents.yaml_reader import read_json_or_yaml

MOST_BYTES = 16 << 20
"""Of a document, unpacked: the largest public API descriptions take 12 MB."""


def read_document(content: bytes, name: str, title: str = "", category: str = "") -> ThemeRecord:
    """Read a document as a theme; `title` and `category` replace what it says itself.

    Raises FormatError with the place of what is wrong; UnreadableFile (InputError): the file as a whole.
    """
    text = decode(content, name, MOST_BYTES)
    if not text.strip():
        raise FormatError("", "the file is empty")
    file = PurePath(name.removesuffix(".gz"))
    said, about, tools = _read_text(text, file.suffix.lower())
    theme = shorten(clean(title or said or file.stem), NAME)
    return ThemeRecord(
        key=slug(theme)[:200],
        name=theme,
        description=about if len(about) <= TEXT else f"{about[:TEXT]}…",
        primary=shorten(clean(category), LABEL),
        tools=tools,
    )


def _read_text(text: str, suffix: str) -> tuple[str, str, tuple[ToolSpec, ...]]:
    """Return title, description and tools of a document's text."""
    is_json = text.lstrip()[:1] in ("{", "[")
    if not is_json and (suffix in (".md", ".markdown") or not _looks_like_yaml(text)):
        return read_markdown(text)
    document = read_json_or_yaml(text, is_json)
    if not is_openapi(document):
        title = document.get("name") or document.get("title") if isinstance(document, dict) else ""
        about = document.get("description") if isinstance(document, dict) else ""
        return _take_text(title), _take_text(about), read_tool_list(document)
    info = document.get("info") if isinstance(document.get("info"), dict) else {}
    return _take_text(info.get("title")), _take_text(info.get("description")), read_operations(document)


def _take_text(value: Any) -> str:
    return clean(value).strip() if isinstance(value, str) else ""


def _looks_like_yaml(text: str) -> bool:
    """Whether a text holds a key at the beginning of a line that tool documents have."""
    return re.search(r"^['\"]?(openapi|swagger|tools|functions|paths)['\"]?\s*:", text, re.MULTILINE) is not None


def read_as_json(file: IO[bytes], name: str, title: str, category: str) -> Any:
    """Yield the theme of a file as JSON, for a process of its own."""
    record = read_document(file.read(), name, title, category)
    yield record.model_dump(mode="json")
