"""Tool documents read in a process of their own, and the errors for files that cannot be read."""

from __future__ import annotations

import io

from synthesis.errors import FormatError, InputError
from synthesis.formats.records import ThemeRecord
from synthesis.formats.values import clean_text
from synthesis.parser import ReadLimits, read_in_process
from synthesis.tool_documents import document_reader
from synthesis.tool_documents.document_reader import DocumentKind

READER = f"{document_reader.__name__}:{document_reader.read_document_as_json.__name__}"
LIMITS = ReadLimits(item_bytes=64 << 20)


def read_tool_document(
    content: bytes, file: str, name: str = "", category: str = "", kind: DocumentKind = "tools"
) -> ThemeRecord:
    """Read a document as a theme. Raises InputError with what is wrong with it, and its place."""
    arguments = {"name": file, "title": name, "category": category, "kind": kind}
    try:
        read = next(read_in_process(READER, io.BytesIO(content), arguments, LIMITS))
    except FormatError as error:
        place = f"{file}, {error.place}" if error.place else file
        raise InputError(clean_text(f"{place}: {error.reason}. Nothing was imported.")[:2_000]) from error
    return ThemeRecord.model_validate(read)
