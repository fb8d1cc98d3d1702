"""Program modeling: one call for the attributes, one for each method, and fragments that are refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from synthesis.drafts import CodeDraft, Plan
from synthesis.errors import InputError, LLMError, MalformedReply
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.store import MemoryStore
from synthesis.skeleton import write_code
from synthesis.skeleton.fragments import normalize_fragment, read_attributes, read_method
from tests.skeleton.support import ATTRIBUTES, METHODS, OPERATIONS, Author, fenced, kit, planned

NAMES = [one["name"] for one in OPERATIONS]


def many(count: int) -> tuple[Plan, Author]:
    """A plan of so many operations, and its author."""
    names = [f"show_{n}" for n in range(count)]
    author = Author()
    author.said |= {f"code_method {n}": [fenced(method(name))] for n, name in enumerate(names)}
    return planned([OPERATIONS[1], *({**OPERATIONS[0], "name": name} for name in names)][1:]), author


def method(name: str) -> str:
    return f'def {name}(self) -> dict:\n    """Show {name}."""\n    return {{"success": True}}'


def written(author: Author, plan: Plan | None = None) -> CodeDraft:
    return asyncio.run(write_code(kit(author), plan or planned()))


def test_fragments_come_in_the_order_of_the_plan() -> None:
    author = Author()
    code = written(author)
    assert code == CodeDraft(
        class_name="PlantSwap",
        attributes=ATTRIBUTES,
        methods=tuple(normalize_fragment(METHODS[name]) for name in NAMES),
    )
    assert author.places == ["code_attributes", "code_method 0", "code_method 1", "code_method 2"]


def test_a_method_is_asked_for_with_rules_class_and_its_own_operation_last() -> None:
    author = Author()
    written(author)
    (heard,), (other,) = author.heard("code_method 1"), author.heard("code_method 2")
    assert ATTRIBUTES in heard
    assert "A pot that somebody holds cannot be taken." in heard
    shared = heard.index("=== operation ")
    assert heard[:shared] == other[:shared]
    assert heard[shared:].splitlines()[1] == "- take_pot (change): Take a pot home. (rules 1, 2)"


def test_eight_methods_are_asked_for_at_once() -> None:
    plan, author = many(20)
    assert len(written(author, plan).methods) == 20
    assert author.most == 8


def test_a_fragment_that_does_not_compile_is_asked_for_again_and_counted() -> None:
    author = Author()
    broken = METHODS["take_pot"].replace("return {", "return {{", 1)
    author.said["code_method 1"] = [fenced(broken), fenced(METHODS["take_pot"])]
    code = written(author)
    assert code.methods[1] == normalize_fragment(METHODS["take_pot"])
    (reason,) = code.refused
    assert reason.startswith("take_pot: the code is not Python")
    assert "not Python" in author.heard("code_method 1")[1]


def test_one_failure_begins_no_further_method_and_keeps_what_was_asked() -> None:
    plan, author = many(20)
    author.said["code_method 2"] = ["no code at all"]
    store = MemoryStore()
    with pytest.raises(MalformedReply):
        asyncio.run(write_code(kit(author, store=store), plan))
    asked = {place for place in author.places if place.startswith("code_method")}
    assert len(asked) < 20
    before = len(author.asked)
    author.said["code_method 2"] = [fenced(method("show_2"))]
    for key in [key for key, reply in store.replies.items() if reply.message.content == "no code at all"]:
        del store.replies[key]
    assert len(asyncio.run(write_code(kit(author, store=store), plan)).methods) == 20
    assert len(author.asked) - before == 20 - len(asked) + 1


def test_an_endpoint_that_fails_is_not_the_authors_fault() -> None:
    class Down(Author):
        async def answer(self, call: StageCall) -> Reply:
            raise LLMError("unreachable", "Nobody answers.", requests=1)

    with pytest.raises(LLMError, match="Nobody answers"):
        written(Down())


def test_who_asks_to_stop_is_heard_between_methods() -> None:
    class Stopped(BaseException):
        pass

    plan, author = many(20)

    def look() -> None:
        if len(author.asked) > 10:
            raise Stopped

    with pytest.raises(Stopped):
        asyncio.run(write_code(replace(kit(author), check_stop=look), plan))
    assert len(author.asked) < 21


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("x = 1", "exactly one class must define __init__; 0 do"),
        (ATTRIBUTES + "\n\nclass Other:\n    def __init__(self):\n        self.x = 1\n", "2 do"),
        (ATTRIBUTES + "\n    def take_pot(self) -> dict:\n        return {}\n", "already has a method take_pot"),
        (
            ATTRIBUTES + "\n    def helper(self) -> dict:\n        return {}\n",
            "begin a helper's name with an underscore",
        ),
        (ATTRIBUTES + "\nwhile True:\n    pass\n", "only imports, constants"),
        (ATTRIBUTES + "\nPlantSwap()\n", "only imports, constants"),
        ("from os import *\n" + ATTRIBUTES, "import names, not"),
        ("x = '\x00'", "null bytes"),
        ("x = '\ud800'", "cannot be read"),
        ("x = " + "-" * 150 + "1\n" + ATTRIBUTES, "nested more than"),
        (ATTRIBUTES + "# long\n" * 10_000, "60,000 are allowed"),
        ("class P:\n  def", "not Python"),
    ],
)
def test_attributes_that_cannot_be_the_first_part_are_refused(code: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_attributes(code, NAMES)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (method("other"), "exactly one method, find_pots; it defines other"),
        (method("find_pots") + "\n\n" + method("take_pot"), "it defines find_pots, take_pot"),
        ("import copy", "it defines none"),
        ("class P:\n    pass\n" + method("find_pots"), "without the class P"),
        (method("find_pots").replace("self", "me"), "must be self"),
        (method("find_pots").replace("self", ""), "must be self"),
        (method("find_pots").replace("self", "self, *rest"), "without \\* or"),
        (method("find_pots").replace("self", "self, plant"), "types: plant"),
        (method("find_pots").replace('"""', "#"), "must have a docstring"),
        ("@staticmethod\n" + method("find_pots"), "without decorators"),
        ("async " + method("find_pots"), "only imports and the method"),
        (method("find_pots") + "\nprint(1)", "only imports and the method"),
        ("\x7fELF\x00\x02", "cannot be read|not Python"),
    ],
)
def test_what_is_not_exactly_the_method_is_refused(code: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_method(code, "find_pots")


def test_a_method_may_be_indented_and_bring_private_helpers() -> None:
    source = f"    def _part(self) -> int:\n        return 1\n\n    {method('find_pots')}".replace(
        "\n    ", "\n        "
    )
    source = "\r\n".join(["    import copy", *("    " + line for line in method("find_pots").split("\n"))])
    assert read_method(source, "find_pots").name == "find_pots"
    helped = "def _part(self) -> int:\n    return 1\n\n" + method("find_pots")
    assert read_method(helped, "find_pots").name == "find_pots"
