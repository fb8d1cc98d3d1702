"""Errands at the rundown desk of the radio."""

from __future__ import annotations

from synthesis.scripted.errands.errand import Edges, Errand

STRONG: Edges = {
    "list_shows": (("get_show", "show_id"), ("lock_show", "show_id")),
    "get_show": (("cut_item", "item_id"), ("drop_item", "item_id")),
    "find_items": (("mark_ready", "item_id"), ("place_item", "item_id"), ("assign_presenter", "item_id")),
    "list_presenters": (("assign_presenter", "presenter_id"), ("set_off_sick", "presenter_id")),
}
WEAK: Edges = {
    "get_show": (("find_items", "text"), ("assign_presenter", "presenter_id")),
    "list_shows": (("find_items", "text"),),
    "find_items": (("get_show", "show_id"),),
}


def _build_field(name: str, kind: str, description: str) -> dict[str, str]:
    return {"name": name, "type": kind, "description": description}


ERRANDS: tuple[Errand, ...] = (
    Errand(
        "list_shows",
        "The shows that are not finished are to be counted.",
        {"open_only": True},
        asks=_build_field("unfinished", "number", "How many shows are not finished"),
        told='len(r["shows"])',
    ),
    Errand(
        "list_shows",
        "All shows are to be counted.",
        asks=_build_field("shows", "number", "How many shows there are"),
        told='len(r["shows"])',
    ),
    Errand(
        "get_show",
        "There may be room in show {show_id}.",
        asks=_build_field("room", "number", "How many seconds are free in the show"),
        told='r["free_seconds"]',
    ),
    Errand(
        "find_items",
        "Something may be called {text}.",
        asks=_build_field("called", "number", "How many pieces are called that"),
        told='len(r["items"])',
    ),
    Errand(
        "list_presenters",
        "Whoever is at work is to be counted.",
        {"available_only": True},
        asks=_build_field("at_work", "number", "How many presenters are at work"),
        told='len(r["presenters"])',
    ),
    Errand(
        "list_presenters",
        "All presenters are to be counted.",
        asks=_build_field("presenters", "number", "How many presenters there are"),
        told='len(r["presenters"])',
    ),
    Errand("mark_ready", "Piece {item_id} can go on air.", holds="{item_id} is ready: true, now."),
    Errand(
        "cut_item",
        "Piece {item_id} may last {seconds} seconds.",
        asks=_build_field("length", "number", "How many seconds the piece lasts"),
        told='r["seconds"]',
        holds="{item_id} has {seconds} seconds now.",
    ),
    Errand(
        "assign_presenter",
        "Piece {item_id} goes to presenter {presenter_id}.",
        holds="{item_id} has the presenter {presenter_id} now.",
    ),
    Errand(
        "set_off_sick",
        "Presenter {presenter_id} is ill.",
        {"off_sick": True},
        holds="{presenter_id} is off sick: true, now.",
    ),
    Errand(
        "set_off_sick",
        "Presenter {presenter_id} is well again.",
        {"off_sick": False},
        holds="{presenter_id} is off sick: false, now.",
    ),
    Errand("lock_show", "Show {show_id} is finished.", holds="{show_id} is locked now."),
)
