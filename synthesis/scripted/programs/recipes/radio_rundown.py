"""Requests at the rundown desk."""

from __future__ import annotations

import re

from synthesis.scripted.programs.recipes.words import find_full_names, get_named_record, get_text_after
from synthesis.scripted.programs.solver import Recipe, Steps


def replace_opening(words: str) -> Steps | None:
    return _replace_opening(words) if "is finished now" in words else None


def _replace_opening(words: str) -> Steps:
    listed = yield "list_shows", {"open_only": True}
    show = get_named_record(get_text_after(words, "shall open"), listed["shows"], "title")
    dropped = find_full_names(get_text_after(words, "leave "))[0]
    items = yield "find_items", {"text": find_full_names(words)[0]}
    item = items["items"][0]["item_id"]
    yield "mark_ready", {"item_id": item}
    out = yield "find_items", {"text": dropped}
    yield "drop_item", {"item_id": out["items"][0]["item_id"]}
    placed = yield "place_item", {"show_id": show["show_id"], "item_id": item, "position": 1}
    yield "lock_show", {"show_id": show["show_id"]}
    message = f"{show['title']} is closed, and {placed['free_seconds']} seconds are left free in it."
    return message, {"free": placed["free_seconds"]}


def replace_sick_presenter(words: str) -> Steps | None:
    return _replace_sick_presenter(words) if "called in sick" in words else None


def _replace_sick_presenter(words: str) -> Steps:
    listed = yield "list_presenters", {}
    absent = get_named_record(words, listed["presenters"])
    other = get_named_record(get_text_after(words, ", let "), listed["presenters"])
    shows = yield "list_shows", {"open_only": True}
    show = get_named_record(re.split(r" had in ", words)[-1], shows["shows"], "title")
    yield "set_off_sick", {"presenter_id": absent["presenter_id"], "off_sick": True}
    order = yield "get_show", {"show_id": show["show_id"]}
    theirs = [item["item_id"] for item in order["items"] if item["presenter_id"] == absent["presenter_id"]]
    for item in theirs:
        yield "assign_presenter", {"item_id": item, "presenter_id": other["presenter_id"]}
    yield "lock_show", {"show_id": show["show_id"]}
    return f"{other['name']} took over {len(theirs)} pieces, and {show['title']} is closed.", {"pieces": len(theirs)}


RECIPES: tuple[Recipe, ...] = (replace_opening, replace_sick_presenter)
