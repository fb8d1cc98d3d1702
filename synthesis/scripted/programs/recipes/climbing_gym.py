"""Requests at the front desk of the climbing gym."""

from __future__ import annotations

from synthesis.scripted.programs.recipes.words import find_full_names, get_named_record, get_number_before
from synthesis.scripted.programs.solver import Recipe, Steps


def record_lead_test(words: str) -> Steps | None:
    return _record_lead_test(words) if "passed his lead test" in words else None


def _record_lead_test(words: str) -> Steps:
    name = find_full_names(words)[0]
    members = yield "find_members", {"text": name}
    member = members["members"][0]["member_id"]
    yield "grant_certificate", {"member_id": member, "certificate": "lead"}
    listed = yield "list_courses", {"needs": "lead"}
    course = next(course for course in listed["courses"] if course["free_seats"] > 0)
    yield "enrol", {"course_id": course["course_id"], "member_id": member}
    ropes = yield "list_gear", {"kind": "rope", "available_only": True}
    rope = ropes["gear"][0]["gear_id"]
    yield "lend_gear", {"gear_id": rope, "member_id": member}
    return f"{name} now leads, has a place in {course['title']}, and took the rope {rope}.", {"rope": rope}


def transfer_place(words: str) -> Steps | None:
    return _transfer_place(words) if "would like her place" in words else None


def _transfer_place(words: str) -> Steps:
    leaving, coming = find_full_names(words)[0], find_full_names(words.partition(", and ")[2])[0]
    listed = yield "list_courses", {}
    course = get_named_record(words, listed["courses"], "title")["course_id"]
    members = yield "find_members", {"text": leaving}
    yield "withdraw", {"course_id": course, "member_id": members["members"][0]["member_id"]}
    members = yield "find_members", {"text": coming}
    member = members["members"][0]["member_id"]
    yield "enrol", {"course_id": course, "member_id": member}
    yield "sell_visits", {"member_id": member, "visits": get_number_before(words, "visits")}
    remaining = yield "check_in", {"member_id": member}
    message = f"{coming} took the place and went in; {remaining['visits_left']} visits are left."
    return message, {"visits": remaining["visits_left"]}


RECIPES: tuple[Recipe, ...] = (record_lead_test, transfer_place)
