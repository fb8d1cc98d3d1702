"""Tool documents of any kind, recognised and read as one theme; as product requirements only if requested."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import IO, Any, Literal

from synthesis.errors import FormatError
from synthesis.formats.files import decode_content
from synthesis.formats.mcp import LABEL, NAME, TEXT
from synthesis.formats.records import DocumentText, ThemeRecord
from synthesis.formats.values import clean_text, shorten_text
from synthesis.themes.keys import build_slug
from synthesis.tool_documents.markdown import read_markdown
from synthesis.tool_documents.openapi import is_openapi, read_operations
from synthesis.tool_documents.requirements import read_requirements
from synthesis.tool_documents.tool_lists import read_tasks, read_tool_list
from synthesis.tool_documents.yaml_reader import read_json_or_yaml

DocumentKind = Literal["tools", "requirements"]
MOST_BYTES = 16 << 20
"""Of a document, unpacked: the largest public API descriptions take 12 MB."""


def read_document(
    content: bytes, name: str, title: str = "", category: str = "", kind: DocumentKind = "tools"
) -> ThemeRecord:
    """Read a document of tools or of product requirements as a theme; `title` and `category` replace its own.

    Raises FormatError with the place of the error; UnreadableFile (InputError): the file as a whole.
    """
    text = decode_content(content, name, MOST_BYTES)
    if not text.strip():
        raise FormatError("", "the file is empty")
    file = PurePath(name.removesuffix(".gz"))
    read = read_requirements(text) if kind == "requirements" else _read_tools(text, file.suffix.lower())
    theme = shorten_text(clean_text(title or read.title or file.stem), NAME)
    return ThemeRecord(
        key=build_slug(theme)[:200],
        name=theme,
        description=read.about if len(read.about) <= TEXT else f"{read.about[:TEXT]}…",
        primary=shorten_text(clean_text(category), LABEL),
        tools=read.tools,
        workflows=read.workflows,
        tasks=read.tasks,
    )


def _read_tools(text: str, suffix: str) -> DocumentText:
    """Read a document of tools."""
    is_json = text.lstrip()[:1] in ("{", "[")
    if not is_json and (suffix in (".md", ".markdown") or not _looks_like_yaml(text)):
        title, about, tools = read_markdown(text)
        return DocumentText(title, about, tools)
    document = read_json_or_yaml(text, is_json)
    if is_openapi(document):
        info = document.get("info") if isinstance(document.get("info"), dict) else {}
        return DocumentText(
            _take_text(info.get("title")), _take_text(info.get("description")), read_operations(document)
        )
    fields = document if isinstance(document, dict) else {}
    title, about = _take_text(fields.get("name") or fields.get("title")), _take_text(fields.get("description"))
    return DocumentText(title, about, read_tool_list(document), tasks=read_tasks(fields))


def _take_text(value: Any) -> str:
    return clean_text(value).strip() if isinstance(value, str) else ""


def _looks_like_yaml(text: str) -> bool:
    """Return whether a text has a key of tool documents at the beginning of a line."""
    return re.search(r"^['\"]?(openapi|swagger|tools|functions|paths)['\"]?\s*:", text, re.MULTILINE) is not None


def read_document_as_json(file: IO[bytes], name: str, title: str, category: str, kind: DocumentKind) -> Any:
    """Yield the theme of a file as JSON, for a process of its own."""
    record = read_document(file.read(), name, title, category, kind)
    yield record.model_dump(mode="json")
