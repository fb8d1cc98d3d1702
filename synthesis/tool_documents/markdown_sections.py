"""Sections of a Markdown document: a heading, its line, and the blocks below it."""

from __future__ import annotations

from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.token import Token

from synthesis.formats.values import clean_text

Block = list[Token]
"""The tokens of one paragraph, list, table or piece of code, from the one that opens it to the one that closes it."""


@dataclass
class MarkdownSection:
    """A heading with the content below it, up to the next one. Text before the first heading has level 0."""

    title: str
    line: int
    level: int
    is_code: bool = False
    blocks: list[Block] = field(default_factory=list)

    @property
    def place(self) -> str:
        return f"line {self.line}"


def split_sections(text: str) -> list[MarkdownSection]:
    """Split a document at its headings."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    sections = [MarkdownSection("", 1, 0)]
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.type == "heading_open":
            inline = tokens[index + 1]
            only_code = [child.type for child in inline.children or []] == ["code_inline"]
            title = clean_text(read_words(inline))
            sections.append(MarkdownSection(title, _count_lines(token), int(token.tag[1:]), only_code))
            index += 3
            continue
        end = _find_end(tokens, index)
        sections[-1].blocks.append(tokens[index : end + 1])
        index = end + 1
    return sections


def format_line(block: Block) -> str:
    """Return the place of a block."""
    return f"line {_count_lines(block[0])}"


def read_words(token: Token) -> str:
    """Return the text of a line as its author wrote it, without code marks if they enclose all of it."""
    children = token.children or []
    if len(children) == 1 and children[0].type == "code_inline":
        return children[0].content
    return token.content


def read_paragraph(block: Block) -> str:
    """Return the text of a block that is no list and no table."""
    if block[0].type in ("fence", "code_block"):
        return clean_text(block[0].content.rstrip())
    return clean_text("\n".join(read_words(token) for token in block if token.type in ("inline", "html_block"))).strip()


def is_list(block: Block) -> bool:
    """Return whether a block is a list, with bullets or numbers."""
    return block[0].type in ("bullet_list_open", "ordered_list_open")


def read_items(block: Block) -> list[str]:
    """Return the items of a list as texts; nested content is part of its item's text, one line each."""
    items: list[str] = []
    for token in block:
        if token.type == "list_item_open" and token.level == block[0].level + 1:
            items.append("")
        elif token.type in ("inline", "fence", "code_block") and items:
            items[-1] = f"{items[-1]}\n{token.content}".strip()
    return [clean_text(item) for item in items]


def read_block(block: Block) -> str:
    """Return any block as text: one line per item of a list or row of a table."""
    if is_list(block):
        return "\n".join(f"- {item}" for item in read_items(block))
    if block[0].type == "table_open":
        return "\n".join(" | ".join(row) for row in read_rows(block))
    return read_paragraph(block)


def read_rows(block: Block) -> list[list[str]]:
    """Return the rows of a table, its head first."""
    rows: list[list[str]] = []
    for token in block:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(clean_text(read_words(token)).strip())
    return rows


def _count_lines(token: Token) -> int:
    return (token.map or [0])[0] + 1


def _find_end(tokens: list[Token], start: int) -> int:
    """Return the index of the token that closes the block which begins at `start`."""
    depth = 0
    for index in range(start, len(tokens)):
        depth += tokens[index].nesting
        if depth <= 0:
            return index
    return len(tokens) - 1
