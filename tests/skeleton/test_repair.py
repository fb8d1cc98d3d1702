"""The static check, construction, and rounds of repair until a program passes or is rejected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from synthesis.contracts import Limits
from synthesis.drafts import AssembledProgram, CodeDraft
from synthesis.errors import Rejected, SandboxLost, SandboxUnavailable
from synthesis.formats.envscaler import read_environment
from synthesis.formats.files import Entry
from synthesis.llm.store import MemoryStore
from synthesis.runtime import Episode, Sandbox
from synthesis.skeleton import assemble_program, plan_environment, write_code
from synthesis.skeleton.assembly import merge_fragments
from synthesis.skeleton.repair import build_slug
from synthesis.skeleton.static import examine_program
from tests.skeleton.support import ATTRIBUTES, METHODS, THEME, Author, fenced, fragments, kit, planned

GOOD = merge_fragments(fragments())
HANGING = ATTRIBUTES.replace("MOST = 2 ", "MOST = sum(iter(int, 1)) ")


def assembled(author: Author, sandbox: Sandbox, code: CodeDraft, **settings: Any) -> AssembledProgram:
    return asyncio.run(assemble_program(kit(author, sandbox, **settings), THEME, planned(), code))


def test_from_a_theme_to_an_environment(sandbox: Sandbox) -> None:
    author, store = Author(), MemoryStore()

    async def whole() -> AssembledProgram:
        used = kit(author, sandbox, store)
        made = await plan_environment(used, THEME)
        return await assemble_program(used, THEME, made, await write_code(used, made))

    found = asyncio.run(whole())
    assert found.repairs == 0
    assert found.invalid_before_repair == ()
    record = found.record
    assert (record.key, record.name, record.category) == ("plant-swap", "Plant swap shelf", "Community")
    assert record.source == GOOD
    assert [(tool.name, tool.kind) for tool in record.tools] == [
        ("find_pots", "query"),
        ("take_pot", "change"),
        ("count_pots", "query"),
    ]
    assert record.tools[0].description.startswith("Find pots by plant.\n\nArgs:")
    assert record.state_schema[0]["attributes"] == "pot_id, plant, holder, since"
    asked = len(author.asked)
    assert asyncio.run(whole()) == found
    assert len(author.asked) == asked


def test_the_record_goes_out_as_envscalers_and_comes_in_equal(sandbox: Sandbox) -> None:
    record = assembled(Author(), sandbox, fragments()).record
    read = read_environment(Entry(place="[0]", key="", value=record.raw))
    same = ("key", "summary", "introduction", "category", "rules", "state_schema", "class_name", "source", "tools")
    assert {name: getattr(read, name) for name in same} == {name: getattr(record, name) for name in same}


def test_what_was_refused_while_it_was_written_counts_as_invalid(sandbox: Sandbox) -> None:
    code = fragments().model_copy(update={"refused": ("take_pot: the code is not Python",)})
    found = assembled(Author(), sandbox, code)
    assert found.invalid_before_repair == ("take_pot: the code is not Python",)
    assert found.repairs == 0


def test_a_program_is_repaired_with_its_errors_fed_back(sandbox: Sandbox) -> None:
    broken = METHODS["count_pots"].replace("self._held(", "self._holds(").replace("datetime.date", "dates.date")
    author = Author({"repair 0": [fenced("class PlantSwap")], "repair 1": [fenced(GOOD)]})
    found = assembled(author, sandbox, fragments(count_pots=broken))
    assert found.record.source == GOOD
    assert found.repairs == 2
    assert len(found.invalid_before_repair) == 2
    (first,), (second,) = author.heard("repair 0"), author.heard("repair 1")
    assert "count_pots uses dates, which nothing defines" in first
    assert "count_pots uses self._holds, which __init__ never sets" in first
    assert 'return {"success": True, "pots": self._holds(neighbour_id)' in first
    assert "the code is not Python" in second


def test_code_that_hangs_at_import_is_repaired(sandbox: Sandbox) -> None:
    author = Author({"repair 0": [fenced(GOOD)]})
    found = assembled(author, sandbox, fragments(HANGING))
    assert found.repairs == 1
    assert "does not come up (time)" in found.invalid_before_repair[0]


def test_what_cannot_be_mended_is_rejected_after_three_rounds(sandbox: Sandbox) -> None:
    wrong = fenced(GOOD.replace("self.today: str", "self.tomorrow: str"))
    author = Author({"repair 0": [wrong], "repair 1": [wrong], "repair 2": [wrong]})
    with pytest.raises(Rejected, match=r"not valid after 3 rounds of repair: .*self\.today") as met:
        assembled(author, sandbox, fragments(ATTRIBUTES.replace("self.today: str", "self.tomorrow: str")))
    assert met.value.reason == "invalid_program"
    assert isinstance(met.value.evidence, dict)
    assert met.value.evidence["repairs"] == 3
    assert met.value.evidence["problems"]
    assert author.places == ["repair 0", "repair 1", "repair 2"]


def test_without_rounds_of_repair_nobody_is_asked(sandbox: Sandbox) -> None:
    author = Author({})
    with pytest.raises(Rejected, match="after 0 rounds"):
        assembled(author, sandbox, fragments(find_pots="x = nothing\n" + METHODS["find_pots"]), repairs=0)
    assert not author.asked


@pytest.mark.parametrize("junk", ["\x00\x7fELF", "\ud800", "=" * 400_000])
def test_a_repair_that_is_junk_is_no_program(sandbox: Sandbox, junk: str) -> None:
    author = Author({"repair 0": [fenced(junk), fenced(GOOD)], "repair 1": [fenced(GOOD)]})
    found = assembled(author, sandbox, fragments(find_pots="x = nothing\n" + METHODS["find_pots"]))
    assert found.record.source == GOOD


def test_a_good_program_has_no_problems(sandbox: Sandbox) -> None:
    assert examine_program(sandbox, GOOD, "PlantSwap", planned()) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("import copy", "import copy\nimport requests", "the module 'requests' is not available"),
        ("def find_pots", "def find_plants", "has no method find_pots"),
        ("def _held", "def held", "held is public but no planned operation"),
        ("    def find_pots", "    @property\n    def find_pots", "find_pots is a property"),
        ("    def find_pots", "    async def find_pots", "asynchronous"),
        ('        """Count the', '        x = """Count the', "count_pots must have a docstring"),
        ('plant: str = ""', 'plant=""', "find_pots must give its parameters types: plant"),
        ("class PlantSwap", "class PlantShelf", "the class PlantSwap is not defined"),
        ("MOST = 2", "LEAST = 2", "take_pot uses MOST, which nothing defines"),
        ("MOST = 2", "MOST = int(input())", "the module uses input, which does not work in the sandbox"),
        ("self.pots: Dict", "self.find_pots = self.pots: Dict", "not Python"),
        ("        # Pots by id.", "        self.find_pots = 1", "self.find_pots hides the method find_pots"),
        ("        # Pots by id.", "        raise KeyError('pots')", "cannot be constructed: KeyError"),
        ("        # Pots by id.", "        import os; os._exit(3)", "does not come up"),
        ("        # Pots by id.", "        while True: pass", "does not come up .time"),
        ("        # Pots by id.", "        self.seen = {1, 2}", "self.seen is not plain JSON"),
        ("        # Pots by id.", "        self.seen = {1: 2}", "self.seen is not plain JSON"),
        ("        # Pots by id.", "        self.seen = object()", "self.seen is not plain JSON"),
        (
            "        # Pots by id.",
            "        self.seen = state.get('seen', 0) + 1",
            "self.seen is not what the initial state says",
        ),
        ("        self.today: str =", "        today: str =", "self.today, which __init__ never sets"),
        ("        # Pots by id.", "        self.more: dict\n", "self.more, which __init__ never sets"),
        ("class PlantSwap:", "class PlantSwap:\n    seen = []\n", "PlantSwap.seen stands on the class"),
        ("        today = ", "        global MOST\n        today = ", "count_pots declares MOST global"),
        ("        today = ", "        MOST['a'].append(1)\n        today = ", "count_pots changes MOST"),
        ("MOST = 2", "def f(a, a): pass\nMOST = 2", "not Python"),
        ("MOST = 2", "MOST = " + "-" * 200 + "2", "nested more than"),
        ("MOST = 2", "# " + "x" * 400_000 + "\nMOST = 2", "300,000 are allowed"),
        ("    def find_pots", "    def take_pot(self): pass\n\n    def find_pots", "PlantSwap defines take_pot twice"),
    ],
)
def test_each_mistake_is_named(sandbox: Sandbox, old: str, new: str, words: str) -> None:
    assert old in GOOD
    found = examine_program(sandbox, GOOD.replace(old, new, 1), "PlantSwap", planned())
    assert any(words.replace(" .", " (") in problem for problem in found), found


def test_attributes_set_by_what_init_calls_or_by_computed_names_are_known(sandbox: Sandbox) -> None:
    called = GOOD.replace("        # Pots by id.", "        self._fill()").replace(
        "    def _held", "    def _fill(self):\n        self.more = {}\n\n    def _held"
    )
    used = called.replace("self.today).isoformat()", "self.today).isoformat() + str(self.more)")
    assert examine_program(sandbox, used, "PlantSwap", planned()) == []
    computed = GOOD.replace("        # Pots by id.", "        setattr(self, 'mo' + 're', {})")
    assert examine_program(sandbox, computed, "PlantSwap", planned()) == []


def test_scopes_are_told_apart(sandbox: Sandbox) -> None:
    """Comprehensions, nested functions and exception names are no undefined names."""
    more = """    def _more(self):
        _CACHE = [a + b for a in range(2) for b in range(a)]
        def inner(n: int) -> int:
            nonlocal_value = lambda q, *r, **s: (q, r, s, n, __name__)
            return inner(n - 1) if n else nonlocal_value(n)
        try:
            return {k: v for k, v in zip([1], _CACHE)}, inner(1), (w := 3), w
        except (KeyError, ValueError) as problem:
            return str(problem)

    def _held"""
    assert examine_program(sandbox, GOOD.replace("    def _held", more, 1), "PlantSwap", planned()) == []


def test_a_lost_sandbox_says_nothing_about_the_program() -> None:
    class Shaken(Sandbox):
        def reset(self, *given: Any, **options: Any) -> Episode:
            raise SandboxLost("sandbox", "its process ended")

    with pytest.raises(SandboxLost):
        examine_program(Shaken(), GOOD, "PlantSwap", planned())


def test_a_closed_sandbox_is_not_the_programs_fault() -> None:
    made = Sandbox(limits=Limits(memory_mib=128))
    made.close()
    with pytest.raises(SandboxUnavailable):
        examine_program(made, GOOD, "PlantSwap", planned())


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("hotel-desk", "hotel-desk"),
        ("tool_library", "tool_library"),
        ("Über Alles!", "ber-alles-"),
        ("../..", "theme-"),
    ],
)
def test_a_key_can_stand_in_an_address(key: str, words: str) -> None:
    found = build_slug(key)
    assert found.startswith(words)
    assert found == build_slug(key)
    assert len(build_slug("x" * 1_000)) <= 80
