"""Reader of two themes for the scripted judge: it finds the kind of place of each, and the kind of work there.

A short list of words replaces a model's knowledge. If it contains none of a theme's words, the themes count as
different, unless they share most of their own words.
"""

from __future__ import annotations

import functools
import re
from typing import Any

PLACES: dict[str, str] = {
    "library": "library librar reading reader book books bookmobile novel magazine volume title shelf loan borrow",
    "tools": "drill saw ladder tool",
    "software": "package version dependency developer module deprecated vulnerabilit repository",
    "hotel": "hotel inn guest room bedroom night breakfast traveller hostel lodging zimmer gäste "
    "gästehaus übernachtung",
    "kennel": "kennel dog boarding",
    "practice": "clinic patient physician doctor practitioner consultation medical sick receptionist appointment",
    "dentist": "dental dentist tooth teeth filling",
    "vet": "veterinary animal pet cat dog vaccination owner",
    "wages": "payroll wage salary salaries payslip overtime earn pay-statement deduct",
    "airline": "airline flight plane passenger airport baggage aisle",
    "railway": "railway train rail carriage platform",
    "restaurant": "restaurant bistro diner dinner table seated seat-party waiter",
    "kitchen": "kitchen chef ingredient recipe spoiled",
    "bank": "bank teller deposit savings account withdraw card debit union cash",
    "mortgage": "mortgage borrower interest lender home-loan appraise income",
    "timetable": "timetable lesson period schedule classroom pupil teacher substitute cover grammar",
    "marks": "mark grade report term average",
    "warehouse": "warehouse pallet bin inventory stock goods picked distribution",
    "parcels": "parcel package courier delivered addressee depot sorting tour",
    "gym": "fitness gym health-club membership spinning contract climbing",
    "pharmacy": "pharmacy pharmacist prescription medicine drug dispens chemist script",
    "cinema": "cinema film movie screening showtime picture auditorium",
    "stage": "theatre rehearsal actor scene play",
    "rental car": "car vehicle rental hire mileage fuel van automobile driver",
    "garage": "repair mechanic garage workshop spare parts fault labour",
    "bikes": "bike bicycle cycle dock station",
    "parking": "park parking barrier bay permit",
    "insurance": "insurance insurer insured policy claim adjuster payout damage",
    "lettings": "landlord tenant lease rent flat apartment tenancy viewing property lettings",
    "museum": "museum gallery exhibition painting catalogued accession collection restored object",
    "laboratory": "laboratory lab sample specimen analyser instrument pathologist result",
    "donation": "donor donation blood unit",
    "support": "ticket incident laptop password computer help-desk escalated technical",
    "recruiting": "candidate applicant vacanc interview recruiting cv position offer",
    "conference": "conference congress attendee delegate workshop-seat badge session register enrol",
    "herd": "cow milk herd calving ear farm",
    "electricity": "electricity power kilowatt grid",
    "water": "water waterworks pipe",
    "archive": "archive record box hold destroyed",
    "badges": "badge door level briefing access",
    "nursery": "plant nursery frost tender",
    "radio": "radio rundown show presenter",
}
"""By kind of place: words, or their beginnings, that are said of it more than of others."""
_WORD = re.compile(r"[^\W\d_]{2,}")
NAME_WEIGHT = 3
ALIKE = 0.55
OWN_WORDS = 0.6
"""Share of their words that two themes of no known place have in common if they are one."""
COMMON = frozenset(("the", "and", "for", "are", "with", "each", "that", "what", "who", "they", "their", "from", "into"))


def compare_themes(first: str, second: str) -> dict[str, Any]:
    """Return the verdict on two themes: name in the first line, description below it."""
    left_places, right_places = weigh_places(first), weigh_places(second)
    if not left_places or not right_places:
        left_words, right_words = _collect_words(first), _collect_words(second)
        shared = len(left_words & right_words) / max(1, min(len(left_words), len(right_words)))
        same = shared >= OWN_WORDS
        return {"reason": f"No kind of place is known of both; they share {shared:.0%} of their words.", "same": same}
    near = _compute_cosine(left_places, right_places)
    top, other_top = _get_first_place(left_places), _get_first_place(right_places)
    reason = f"One speaks most of {top}, the other of {other_top}; all in all they are alike to {near:.0%}."
    return {"reason": reason, "same": top == other_top and near >= ALIKE}


def group_listed_themes(lines: str) -> dict[str, Any]:
    """Return groups of numbered themes (`1. name: description`) that are mostly about the same kind of place."""
    groups: dict[str, list[int]] = {}
    for line in lines.splitlines():
        number, _, text = line.partition(". ")
        weights = weigh_places(text.replace(": ", "\n", 1))
        if weights and number.isdecimal():
            groups.setdefault(_get_first_place(weights), []).append(int(number))
    alike = {place: numbers for place, numbers in groups.items() if len(numbers) > 1}
    return {"reasoning": f"Several speak most of {', '.join(alike) or 'nothing'}.", "groups": list(alike.values())}


def weigh_places(text: str) -> dict[str, float]:
    """Return the weight of each kind of place in a theme; its name counts more."""
    name, _, about = text.partition("\n")
    weights: dict[str, float] = {}
    for words, weight in ((name, NAME_WEIGHT), (about, 1)):
        for word in _WORD.findall(words.casefold()):
            word_places = _find_known_places(word)
            for place in word_places:
                weights[place] = weights.get(place, 0.0) + weight / len(word_places)
    return weights


@functools.lru_cache(20_000)
def _find_known_places(word: str) -> tuple[str, ...]:
    return tuple(place for place, stems in _STEMS.items() if _matches_stem(word, stems))


def _matches_stem(word: str, stems: list[str]) -> bool:
    return any(word == stem or (word.startswith(stem) and len(word) - len(stem) <= 3) for stem in stems)


def _get_first_place(found: dict[str, float]) -> str:
    return max(sorted(found), key=lambda place: found[place])


def _compute_cosine(left: dict[str, float], right: dict[str, float]) -> float:
    product = sum(left[place] * right.get(place, 0.0) for place in left)
    lengths = sum(value**2 for value in left.values()) * sum(value**2 for value in right.values())
    return float(product / lengths**0.5)


def _collect_words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.casefold()) if word not in COMMON and len(word) > 2}


_STEMS = {place: [stem for stem in words.split() if "-" not in stem] for place, words in PLACES.items()}
