"""The Python code in a reply: the block that is the answer, lenient about the text around it."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections import deque

from synthesis import syntax
from synthesis.errors import InputError
from synthesis.llm.reply_marks import Block, find_blocks, strip_marks, strip_thoughts
from synthesis.llm.reply_words import (
    MOST_DRAFTS,
    Read,
    describe_missing_answer,
    is_draft_replaced,
    require_few,
    require_readable_length,
)

CODE = frozenset({"", "python", "py", "python3", "py3", "ipython", "python-3"})
MOST_MERGED = 12
"""So many fences are looked at for the one that ends a block whose text holds fences itself."""
MOST_CUTS = 8
MOST_TAGS = 20
"""So many of the last tags are looked at."""
MOST_CODE = 400_000
"""Characters of code that are parsed, or tried as code, all together: a tree takes hundreds of times its text."""
_ANSWER = re.compile(r"^[ \t]*(?:```|~~~|(?:async )?def |class |import |from |@)|\[PYTHON\]|<code>", re.MULTILINE)
_BEGINS = re.compile(r"^(?:(?:async )?def |class |import |from \w|@\w)", re.MULTILINE)
_BEGINS_INDENTED = re.compile(r"^([ \t]+)(?:(?:async )?def |class |import |from \w|@\w)", re.MULTILINE)
_TAGGED = re.compile(r"\[PYTHON\]|<(?:code|python)>")
_CLOSING = {"[PYTHON]": "[/PYTHON]", "<code>": "</code>", "<python>": "</python>"}
_LEFT_OUT = re.compile(
    r"^[ \t]*#[ \t]*(?:\.{3}|…)[^\n]{0,20}\b(?:rest|existing|same|other|remaining|unchanged|previous|before|omitted)\b",
    re.MULTILINE | re.IGNORECASE,
)
_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "“": '"', "”": '"'})


def read_code(text: str) -> str:
    """Return the block of code that is the answer of a reply. Raise InputError."""
    return str(read_source(text).value)


def read_source(text: str) -> Read:
    """Return the same as `read_code`, with the repairs."""
    answer_text = strip_marks(strip_thoughts(require_readable_length(text).replace("\r\n", "\n"), _ANSWER))
    chosen = _read_tagged(answer_text) or _read_fenced(answer_text) or _read_bare(answer_text)
    if chosen is None:
        raise InputError(
            describe_missing_answer(answer_text, "the code that was asked for", "no fenced block of Python code")
        )
    if _LEFT_OUT.search(str(chosen.value)) or str(chosen.value).strip() in ("...", "…", "pass"):
        raise InputError("its code leaves a part out and says so in a comment; write it whole")
    return chosen


def _read_fenced(said: str) -> Read | None:
    blocks = find_blocks(said)
    code = [block for block in blocks if block.language.lower() in CODE and block.body.strip()]
    require_few(len(code), "blocks of code")
    if (length := sum(len(block.body) for block in code)) > MOST_CODE:
        raise InputError(f"its code has {length:,} characters; at most {MOST_CODE:,} are read")
    if blocks and not blocks[-1].closed and (blocks[-1].body.strip() or len(blocks) == 1):
        if whole := _merge_fences(said, blocks):
            return whole
        raise InputError("its fenced block of code does not end")
    if not code:
        return None
    read = [(block, _mend_block(block.body)) for block in code]
    answers = [(block, source) for block, source in read if source is not None and defines_code(str(source.value))]
    if not answers and any(source is None for _, source in read) and (whole := _merge_fences(said, blocks)):
        return whole
    if not answers:
        answers = [(block, source or Read(block.body)) for block, source in read]
    block, chosen = answers[-1]
    meant = str(chosen.value).strip()
    drafts = [earlier for earlier, source in answers[:-1] if str(source.value).strip() != meant]
    if len(drafts) > MOST_DRAFTS or not all(is_draft_replaced(said, it.start, it.end, block.start) for it in drafts):
        raise InputError(f"it holds {len(answers)} fenced blocks of code; write the one that you mean, once")
    return chosen


def _merge_fences(said: str, blocks: list[Block]) -> Read | None:
    """Return a block whose text holds fences: from its beginning to the last fence by which it is Python."""
    begin = next((block for block in blocks if block.language.lower() in CODE and "python" in block.language), None)
    if begin is None:
        return None
    at = said.find("\n", said.find(begin.language, begin.start)) + 1
    fences = [place.start() for place in re.finditer(r"^[ \t]*(?:```|~~~)", said[at:], re.MULTILINE)]
    left = MOST_CODE
    for end in reversed(fences[:MOST_MERGED]):
        body = said[at : at + end]
        if len(body) > left:
            continue
        left -= len(body)
        if defines_code(body):
            return Read(body, frozenset({"fences inside"}))
    return None


def _read_tagged(said: str) -> Read | None:
    """Return the code between tags that some models write in place of fences."""
    if "```" in said:
        return None
    left = MOST_CODE
    for tag in reversed(deque(_TAGGED.finditer(said), maxlen=MOST_TAGS)):
        end = said.find(_CLOSING[tag[0]], tag.end())
        left -= max(end - tag.end(), 0)
        source = _mend_block(said[tag.end() : end].strip("\n")) if end >= 0 and left >= 0 else None
        if source is not None:
            return Read(source.value, source.repairs | {"no fence"})
    return None


def _read_bare(said: str) -> Read | None:
    """Return code without a fence, with or without words around it."""
    if "```" in said or "~~~" in said:
        return None
    begin = _BEGINS.search(said)
    if begin is None:
        return _read_indented(said)
    body, left = said[begin.start() :], MOST_CODE
    for _ in range(MOST_CUTS):
        left -= len(body)
        if left < 0:
            return None
        if defines_code(body):
            return Read(body.rstrip(), frozenset({"no fence"}))
        line = _find_fault_line(body)
        paragraph = body[: _get_line_offset(body, line)].rstrip().rfind("\n\n") if line else -1
        own = _get_line_offset(body, line) if line else 0
        body = body[: own if own and body[:own].endswith("\n\n") else max(paragraph, 0)]
        if not body.strip():
            return None
    return None


def _read_indented(said: str) -> Read | None:
    """Return the only part of a reply that is set apart by its indentation, as Markdown allows."""
    begin = _BEGINS_INDENTED.search(said)
    if begin is None:
        return None
    lines = said[begin.start() :].split("\n")
    inside = [not line.strip() or line.startswith(begin[1]) for line in lines]
    length = inside.index(False) if False in inside else len(lines)
    body = textwrap.dedent("\n".join(lines[:length])).strip("\n")
    again = _BEGINS_INDENTED.search("\n".join(lines[length:]))
    if again is not None or len(body) > MOST_CODE or not defines_code(body):
        return None
    return Read(body, frozenset({"indented", "no fence"}))


def _get_line_offset(text: str, line: int) -> int:
    """Return the offset at which a line begins, counted from 1."""
    return sum(len(part) for part in text.splitlines(keepends=True)[: line - 1])


def _find_fault_line(source: str) -> int:
    """Return the line at which a text stops being Python; 0 if that is unknown."""
    try:
        syntax.parse_module(source)
    except SyntaxError as error:
        return error.lineno or 0
    except syntax.UNREADABLE:
        return 0
    return 0


def _mend_block(body: str) -> Read | None:
    """Return a block as Python; None if it is not Python."""
    if _parse_or_none(body) is not None:
        return Read(body)
    steps = (
        ("indented", lambda text: textwrap.dedent(text)),
        ("odd spaces", lambda text: text.replace("\u00a0", " ").replace("\u200b", "").replace("\ufeff", "")),
        ("curly quotes", lambda text: text.translate(_QUOTES)),
    )
    repairs = set()
    for name, step in steps:
        changed = step(body)
        if changed != body:
            body = changed
            repairs.add(name)
            if _parse_or_none(body) is not None:
                return Read(body, frozenset(repairs))
    return None


def _parse_or_none(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return syntax.parse_module(source)
    except syntax.UNREADABLE:
        return None


def defines_code(source: str) -> bool:
    """Return whether a text is Python that defines a class or a function."""
    if "def " not in source and "class " not in source:
        return False
    tree = _parse_or_none(source)
    return tree is not None and any(
        isinstance(part, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) for part in tree.body
    )
