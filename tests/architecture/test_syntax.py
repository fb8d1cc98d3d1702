"""Source is parsed by many threads at once: rollouts, audits and the site do."""

from __future__ import annotations

import ast
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from synthesis import syntax
from tests.architecture.source_files import nodes_of, sources

TEXT = "{" + ", ".join(f"'k{n}': [1, ({n}, 'x'), -{n}]" for n in range(200)) + "}"


@pytest.fixture
def restless() -> Iterator[None]:
    """A collector that runs Python code in the midst of a parse, where another thread may take over."""

    def look(phase: str, info: dict[str, Any]) -> None:
        sum(range(50))

    before = gc.get_threshold()
    gc.set_threshold(20)
    gc.callbacks.append(look)
    yield
    gc.callbacks.remove(look)
    gc.set_threshold(*before)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("read", [syntax.read_literal, syntax.parse_module, syntax.parse_expression])
def test_threads_do_not_spoil_each_others_trees(read: Callable[[str], Any]) -> None:
    met: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(4):
                read(TEXT)
        except BaseException as error:
            met.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert met == []


@pytest.mark.parametrize("read", [syntax.parse_module, syntax.parse_expression, syntax.build_scopes])
def test_an_f_string_of_countless_fields_is_not_waited_for(read: Callable[[str], Any]) -> None:
    """A million characters took CPython 3.11 minutes, in one call."""
    hostile = 'f"' + "{a}" * 300_000 + '"'
    if sys.version_info < (3, 12):
        with pytest.raises(ValueError, match="too many braces"):
            read(hostile)
    else:
        read(hostile)
    read('f"' + "{a}" * 1_000 + '"')


@pytest.mark.parametrize("text", ["{%s}", "[{%s}]", "{'a': {%s}}"])
@pytest.mark.parametrize("member", ["{}", "{}: 0", "({},)"])
def test_a_literal_whose_members_have_one_hash_is_refused(text: str, member: str) -> None:
    """45,000 of them, under a megabyte, held all threads for 17 s, in one call."""
    alike = ", ".join(member.format((2**61 - 1) * number) for number in range(1, 300))
    if member == "({},)":  # a tuple's hash is its members'
        alike = ", ".join(f"({(2**61 - 1) * number}, 1)" for number in range(1, 300))
    with pytest.raises(ValueError, match="one hash"):
        syntax.read_literal(text % alike)
    many = ", ".join(member.format(number) for number in range(300))
    syntax.read_literal(text % many)


def test_a_literal_of_a_number_that_nobody_can_spell_is_refused() -> None:
    with pytest.raises(ValueError, match="1,000 digits"):
        syntax.read_literal("[0x" + "f" * 1_000 + "]")
    assert syntax.read_literal("9" * 999) == 10**999 - 1


def test_nothing_else_parses() -> None:
    """Starter programs run in the sandbox's children, which have one thread."""
    found = []
    for path in sources("synthesis", "webapp"):
        if path.name != "syntax.py" and not {"starter", "child"} & set(path.parts):
            found += [
                f"{path}:{node.lineno}" for node in nodes_of(path) if isinstance(node, ast.Attribute) and spoils(node)
            ]
    assert not found


def spoils(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "ast" and node.attr in {"parse", "literal_eval"}
