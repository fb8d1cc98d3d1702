"""Requests at the badge desk."""

from __future__ import annotations

from synthesis.scripted.programs.recipes.words import full_names
from synthesis.scripted.programs.solver import Recipe, Steps

LONGEST_DAYS = {"visitor": 1, "contractor": 30, "staff": 365}


def badge_lost(words: str) -> Steps | None:
    return _badge_lost(words) if "lost her badge" in words else None


def _badge_lost(words: str) -> Steps:
    name = full_names(words)[0]
    people = yield "find_people", {"text": name}
    person = people["people"][0]["person_id"]
    seen = yield "get_person", {"person_id": person}
    yield "report_lost", {"badge_id": seen["badge"]["badge_id"]}
    stock = yield "list_badges", {"status": "stock"}
    new, days = stock["badges"][0]["badge_id"], LONGEST_DAYS[seen["person"]["role"]]
    level = seen["badge"]["level"]
    issued = yield "issue_badge", {"badge_id": new, "person_id": person, "level": level, "days": days}
    return f"{name} has a new badge; it works until {issued['last_day']}.", {"until": issued["last_day"]}


def firm_finished(words: str) -> Steps | None:
    return _firm_finished(words) if "has finished here" in words else None


def _firm_finished(words: str) -> Steps:
    people = yield "find_people", {"text": full_names(words)[0]}
    held = [person["badge_id"] for person in people["people"] if person["badge_id"]]
    for badge in held:
        yield "revoke_badge", {"badge_id": badge}
    return f"{len(held)} badges were taken away for good.", {"badges": len(held)}


RECIPES: tuple[Recipe, ...] = (badge_lost, firm_finished)
