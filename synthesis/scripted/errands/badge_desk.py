"""Errands at the badge desk."""

from __future__ import annotations

from synthesis.scripted.errands.errand import Edges, Errand

STRONG: Edges = {
    "find_people": (("get_person", "person_id"), ("record_briefing", "person_id"), ("set_suspended", "person_id")),
    "get_person": (("extend_badge", "badge_id"), ("set_badge_level", "badge_id")),
    "list_badges": (("report_lost", "badge_id"), ("revoke_badge", "badge_id"), ("issue_badge", "badge_id")),
}
WEAK: Edges = {
    "get_person": (("list_doors", "level"),),
    "list_badges": (("get_person", "person_id"), ("list_doors", "level")),
    "list_doors": (("set_badge_level", "level"),),
}


def _build_field(name: str, kind: str, description: str) -> dict[str, str]:
    return {"name": name, "type": kind, "description": description}


ERRANDS: tuple[Errand, ...] = (
    Errand(
        "find_people",
        "Look up {text}.",
        asks=_build_field("people", "number", "How many people that is"),
        told='len(r["people"])',
    ),
    Errand(
        "get_person",
        "Person {person_id} should come from the right firm.",
        asks=_build_field("firm", "name", "From which firm the person comes"),
        told='r["person"]["firm"]',
    ),
    Errand(
        "list_doors",
        "Somebody wants to know what level {level} opens.",
        asks=_build_field("doors", "number", "How many doors the level opens"),
        told='len(r["doors"])',
    ),
    Errand(
        "list_doors",
        "The doors are to be counted.",
        asks=_build_field("all_doors", "number", "How many doors there are"),
        told='len(r["doors"])',
    ),
    Errand(
        "list_badges",
        "The badges that are {status} are to be counted.",
        asks=_build_field("badges", "number", "How many badges that is"),
        told='len(r["badges"])',
    ),
    Errand(
        "list_badges",
        "All badges are to be counted.",
        asks=_build_field("all_badges", "number", "How many badges there are"),
        told='len(r["badges"])',
    ),
    Errand(
        "get_today",
        "The date goes on the report.",
        asks=_build_field("date", "date", "Today's date"),
        told='r["today"]',
    ),
    Errand(
        "record_briefing",
        "Person {person_id} has taken the safety briefing.",
        holds="{person_id} is briefed now.",
    ),
    Errand(
        "set_badge_level",
        "Badge {badge_id} gets level {level}.",
        asks=_build_field("level", "number", "The level that the badge has"),
        told='r["level"]',
        holds="{badge_id} has level {level} now.",
    ),
    Errand(
        "extend_badge",
        "Badge {badge_id} is needed for {days} more days.",
        asks=_build_field("last_day", "date", "The last day on which the badge is valid"),
        told='r["last_day"]',
        holds="{badge_id} has its last day on {last_day} now.",
    ),
    Errand("report_lost", "Badge {badge_id} was lost.", holds="{badge_id} is lost now."),
    Errand("revoke_badge", "Badge {badge_id} is to be taken away.", holds="{badge_id} is revoked now."),
    Errand(
        "set_suspended",
        "Person {person_id} is not to come in any more.",
        {"suspended": True},
        holds="{person_id} is suspended: true, now.",
    ),
    Errand(
        "set_suspended",
        "Person {person_id} may come in again.",
        {"suspended": False},
        holds="{person_id} is suspended: false, now.",
    ),
)
