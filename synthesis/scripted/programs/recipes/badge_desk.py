"""Requests at the badge desk."""

from __future__ import annotations

from synthesis.scripted.programs.recipes.words import find_full_names
from synthesis.scripted.programs.solver import Recipe, Steps

LONGEST_DAYS = {"visitor": 1, "contractor": 30, "staff": 365}


def replace_lost_badge(words: str) -> Steps | None:
    return _replace_lost_badge(words) if "lost her badge" in words else None


def _replace_lost_badge(words: str) -> Steps:
    name = find_full_names(words)[0]
    people = yield "find_people", {"text": name}
    person = people["people"][0]["person_id"]
    details = yield "get_person", {"person_id": person}
    yield "report_lost", {"badge_id": details["badge"]["badge_id"]}
    stock = yield "list_badges", {"status": "stock"}
    new, days = stock["badges"][0]["badge_id"], LONGEST_DAYS[details["person"]["role"]]
    level = details["badge"]["level"]
    issued = yield "issue_badge", {"badge_id": new, "person_id": person, "level": level, "days": days}
    return f"{name} has a new badge; it works until {issued['last_day']}.", {"until": issued["last_day"]}


def revoke_firm_badges(words: str) -> Steps | None:
    return _revoke_firm_badges(words) if "has finished here" in words else None


def _revoke_firm_badges(words: str) -> Steps:
    people = yield "find_people", {"text": find_full_names(words)[0]}
    held = [person["badge_id"] for person in people["people"] if person["badge_id"]]
    for badge in held:
        yield "revoke_badge", {"badge_id": badge}
    return f"{len(held)} badges were taken away for good.", {"badges": len(held)}


RECIPES: tuple[Recipe, ...] = (replace_lost_badge, revoke_firm_badges)
