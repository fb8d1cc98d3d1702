"""Near pairs of two sides: planted ones are found among many, and nothing else."""

from __future__ import annotations

import random

from webapp.datasets.evidence.near_pairs import NearPair, find_near_pairs

WORDS = [
    f"{first}{last}" for first in ("box", "shelf", "ship", "crane", "ticket", "room") for last in "abcdefghijklmno"
]


def text(luck: random.Random) -> str:
    return " ".join(luck.choice(WORDS) for _ in range(40))


def found(asked: list[str], others: list[str], threshold: float = 0.9) -> list[NearPair]:
    return find_near_pairs(
        lambda numbers: [asked[number] for number in numbers],
        len(asked),
        lambda numbers: [others[number] for number in numbers],
        len(others),
        threshold,
    )


def test_planted_pairs_are_found_and_no_others() -> None:
    luck = random.Random(7)
    others = [text(luck) for _ in range(1_200)]
    asked, planted = [], {}
    for number in range(300):
        if number % 10:
            asked.append(text(luck))
            continue
        planted[number] = luck.randrange(len(others))
        words = others[planted[number]].split()
        words[luck.randrange(len(words))] = luck.choice(WORDS)
        asked.append(" ".join(words))
    assert {pair.asked: pair.other for pair in found(asked, others)} == planted


def test_a_side_of_one_template_has_one_pair_a_text() -> None:
    long = "of the shelf in the upper room, and leave all that is not asked about exactly as you found it"
    others = [f"Open box {number} {long}." for number in range(600)]
    asked = [f"Open box {number} {long}." for number in range(600, 700)]
    pairs = found(asked, others, 0.85)
    assert [pair.asked for pair in pairs] == list(range(100))
    assert found(asked, []) == found([], others) == []
    assert found(["", "?"], ["", "."]) == []


def test_a_pair_is_found_among_thousands_that_are_half_alike() -> None:
    """Tasks that one prompt made share much; the one that nearly equals another stands out all the same."""
    luck = random.Random(3)
    common = text(luck)
    others = [f"{common} {text(luck)}" for _ in range(2_000)]
    asked, planted = [], {}
    for number in range(60):
        words = f"{common} {text(luck)}".split()
        if number % 2:
            planted[number] = luck.randrange(len(others))
            words = others[planted[number]].split()
            words[luck.randrange(40, len(words))] = "otherwise"
        asked.append(" ".join(words))
    pairs = {pair.asked: pair.other for pair in found(asked, others)}
    assert pairs.items() <= planted.items()
    assert len(pairs) >= len(planted) - 1
