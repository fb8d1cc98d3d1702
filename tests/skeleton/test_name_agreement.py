"""Names that methods must agree on: found in the program, told to the author once, and no reason to reject it."""

from __future__ import annotations

import asyncio

import pytest

from synthesis.drafts import AssembledProgram
from synthesis.runtime import Sandbox
from synthesis.skeleton import assemble_program
from synthesis.skeleton.assembly import merge_fragments
from synthesis.skeleton.name_agreement import find_disagreements
from tests.skeleton.support import THEME, Author, fenced, fragments, kit, planned

GOOD = merge_fragments(fragments())
APART = GOOD.replace("def count_pots(self, neighbour_id: str)", "def count_pots(self, neighbourId: str)").replace(
    "self._held(neighbour_id), ", "self._held(neighbourId), "
)


def assembled(author: Author, sandbox: Sandbox, **settings: int) -> AssembledProgram:
    code = fragments(count_pots=METHOD)
    return asyncio.run(assemble_program(kit(author, sandbox, **settings), THEME, planned(), code))


METHOD = APART[APART.index("    def count_pots") :].replace("\n    ", "\n").strip() + "\n"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("count_pots(self, neighbour_id", "count_pots(self, neighbourId", "neighbourId (of count_pots) are one thing"),
        ("count_pots(self, neighbour_id", "count_pots(self, neighbour", "seem to be one thing"),
        ("count_pots(self, neighbour_id", "count_pots(self, id", "count_pots takes `id`, where others take"),
        (
            "count_pots(self, neighbour_id: str",
            "count_pots(self, neighbour_id: int",
            "is string in take_pot and integer",
        ),
        ("count_pots(self,", "count_pots(self, held_on: str, held_date: str,", "seem to be one day"),
        ('"error": """Not', '"reason": """Not', "'reason', the others as 'error'"),
        ('"pots": self._held', '"data": self._held', "count_pots return their result as 'data'"),
        ('"on": today', '"pot_s": today', "are one thing"),
    ],
)
def test_names_that_do_not_agree_are_told(old: str, new: str, words: str) -> None:
    assert old in GOOD
    found = find_disagreements(GOOD.replace(old, new), "PlantSwap", planned())
    assert any(words in problem for problem in found), found


def test_a_program_whose_names_agree_is_left_alone() -> None:
    assert find_disagreements(GOOD, "PlantSwap", planned()) == []


def test_the_author_is_told_once_and_the_better_version_is_kept(sandbox: Sandbox) -> None:
    author = Author({"repair 0": [fenced(GOOD)]})
    found = assembled(author, sandbox)
    assert (found.record.source, found.repairs, found.disagreements) == (GOOD, 1, ())
    assert found.invalid_before_repair == ()
    assert "neighbour_id (of take_pot) and neighbourId (of count_pots)" in author.heard("repair 0")[0]


@pytest.mark.parametrize("reply", ["I am sorry.", fenced("class PlantSwap:\n    pass"), fenced(APART)])
def test_a_version_that_is_no_better_is_not_taken(sandbox: Sandbox, reply: str) -> None:
    found = assembled(Author({"repair 0": [reply]}), sandbox)
    assert "def count_pots(self, neighbourId: str)" in found.record.source
    assert (found.repairs, len(found.disagreements)) == (0, 1)


def test_without_rounds_of_repair_nobody_is_told(sandbox: Sandbox) -> None:
    author = Author({})
    assert len(assembled(author, sandbox, repairs=0).disagreements) == 1
    assert not author.asked
