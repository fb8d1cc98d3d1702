"""Names say what a function does, and docstrings are plain technical English: shares as in model code bases."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source_files import nodes_of, sources

BUNDLED = re.compile(r"/migrations/|/starter/[^/]+/program\.py|/scripted/themes/|/examples/programs/")
IRREGULAR = re.compile(
    r"told|shown|made|kept|taken|given|held|found|said|seen|known|sent|begun|written|left|lost|met|laid|asked|paid|due|done"
    r"|gone|drawn|chosen|broken|grown|thrown|worn"
)
NO_PARTICIPLES = frozenset({"feed", "seed", "need", "speed", "embed", "exceed", "proceed", "succeed"})
WHERE_AS_IF = re.compile(
    r"\bwhere (?:some|no|any|a|an|the|it|they|there|nothing|none|nobody|one|that|each|all|its|both|only|this)\b", re.I
)
QUAINT = re.compile(r"\b(?:stands?|stood|tells?|told|some(?:body|one)|no(?:body| one)|every(?:body|one))\b", re.I)
QUESTION = re.compile(r"(?:What|Why|Whether|Who|Whose|Where|How|Which|When|That)\b")


def paths() -> list[Path]:
    return [path for path in sources("webapp", "synthesis", "training") if not BUNDLED.search(path.as_posix())]


def function_names() -> list[str]:
    nodes = (node for path in paths() for node in nodes_of(path))
    functions = (node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [name.strip("_") for name in functions if not name.startswith("__")]


def docstrings() -> Iterator[str]:
    for path in paths():
        for node in nodes_of(path):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from filter(None, [ast.get_docstring(node)])


def percent(part: list[str], whole: list[str]) -> float:
    return 100 * len(part) / len(whole)


def is_participle(name: str) -> bool:
    ends = name.endswith("ed") and name not in NO_PARTICIPLES and "_" not in name
    return bool(IRREGULAR.fullmatch(name)) or ends


def test_most_functions_are_named_by_more_than_one_word() -> None:
    names = function_names()
    assert percent([name for name in names if "_" not in name], names) <= 25


def test_hardly_a_function_is_named_by_a_participle() -> None:
    names = function_names()
    participles = sorted(name for name in names if is_participle(name))
    assert percent(participles, names) <= 1, participles


def test_hardly_a_name_ends_in_of() -> None:
    names = function_names()
    ends = sorted(name for name in names if name.endswith("_of"))
    assert percent(ends, names) <= 0.5, ends


def test_docstrings_say_if_and_not_where() -> None:
    texts = list(docstrings())
    words = sum(len(text.split()) for text in texts)
    found = [match[0] for text in texts for match in WHERE_AS_IF.finditer(text)]
    assert 10_000 * len(found) / words <= 8, found[:20]


def test_docstrings_are_not_quaint() -> None:
    texts = list(docstrings())
    words = sum(len(text.split()) for text in texts)
    found = [text.split("\n")[0] for text in texts if QUAINT.search(text)]
    assert 10_000 * sum(len(QUAINT.findall(text)) for text in texts) / words <= 3, found[:20]


def test_docstrings_do_not_begin_as_a_question() -> None:
    texts = list(docstrings())
    found = [text.split("\n")[0] for text in texts if QUESTION.match(text)]
    assert percent(found, texts) <= 3, found[:20]
