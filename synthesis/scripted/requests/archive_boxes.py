"""Requests in the records archive."""

from __future__ import annotations

import re
from collections.abc import Mapping

from synthesis.scripted.programs.solver import Steps
from synthesis.scripted.requests.request import Edges, Request, Thought

EDGES: Edges = {
    "find_files": (
        ("lend_file", "file_id"),
        ("set_hold", "file_id"),
        ("move_file", "file_id"),
        ("list_files", "box_id"),
        ("seal_box", "box_id"),
    ),
    "list_files": (("destroy_file", "file_id"),),
}
_TITLE = r"(?P<title>[A-Z][a-z]+(?: [a-z]+)*)"
_OLDEST = (
    "def derive(results):\n"
    '    files = [file for file in results["T"]["files"] if not file["on_hold"]]\n'
    '    return min(files, key=lambda file: file["closed_year"])["file_id"]\n'
)


def _find_file(title: str) -> Steps:
    files = yield "find_files", {"text": title}
    return "", files["files"][0]


def _lend_file(said: Mapping[str, str]) -> Steps:
    _, file = yield from _find_file(said["title"])
    yield "lend_file", {"file_id": file["file_id"], "borrower": said["who"]}
    return "", {}


def _hold_file(said: Mapping[str, str]) -> Steps:
    _, file = yield from _find_file(said["title"])
    yield "set_hold", {"file_id": file["file_id"], "on_hold": True}
    return "", {}


def _move_file(said: Mapping[str, str]) -> Steps:
    _, file = yield from _find_file(said["title"])
    yield "move_file", {"file_id": file["file_id"], "box_id": said["box"]}
    return "", {}


def _destroy_oldest_file(said: Mapping[str, str]) -> Steps:
    _, file = yield from _find_file(said["title"])
    listed = yield "list_files", {"box_id": file["box_id"]}
    free = [one for one in listed["files"] if not one["on_hold"]]
    yield "destroy_file", {"file_id": min(free, key=lambda one: one["closed_year"])["file_id"]}
    return "", {}


def _seal_box(said: Mapping[str, str]) -> Steps:
    _, file = yield from _find_file(said["title"])
    yield "seal_box", {"box_id": file["box_id"]}
    return "", {}


def _look_up_files(said: Mapping[str, str]) -> Steps:
    yield "find_files", {"text": said["title"]}
    yield "find_files", {"text": said["other"]}
    return "", {}


REQUESTS: tuple[Request, ...] = (
    Request(
        "a file is lent",
        ("find_files", "lend_file"),
        ("Olga Brenner borrows the file Bridge survey.", "Olga Brenner borrows the file Museum loans."),
        re.compile(r"(?P<who>[A-Z][a-z]+ [A-Z][a-z]+) borrows the file " + _TITLE),
        _lend_file,
    ),
    Request(
        "the oldest file goes",
        ("find_files", "list_files", "destroy_file"),
        (
            "Destroy the oldest file that is not on hold in the box of Fire brigade accounts.",
            "Destroy the oldest file that is not on hold in the box of Library extension.",
        ),
        re.compile("Destroy the oldest file that is not on hold in the box of " + _TITLE),
        _destroy_oldest_file,
        (
            Thought(
                1,
                "the oldest file of the box that is not on hold",
                _OLDEST,
                2,
                "file_id",
                "It is the oldest that may go.",
            ),
        ),
    ),
    Request(
        "a file is held",
        ("find_files", "set_hold"),
        ("The lawyers want School meals to be on hold.", "The lawyers want Lock keepers to be on hold."),
        re.compile("The lawyers want " + _TITLE.replace(")*)", ")*?)") + " to be on hold"),
        _hold_file,
    ),
    Request(
        "a box is sealed",
        ("find_files", "seal_box"),
        ("Seal the box of Roof of the girls school.", "Seal the box of Flood reports."),
        re.compile("Seal the box of " + _TITLE),
        _seal_box,
    ),
    Request(
        "a file moves",
        ("find_files", "move_file"),
        ("The file Choir travel belongs into box X-4.", "The file Poster contest belongs into box X-3."),
        re.compile("The file " + _TITLE.replace(")*)", ")*?)") + r" belongs into box (?P<box>X-\d+)"),
        _move_file,
    ),
    Request(
        "a look for two files",
        ("find_files", "find_files"),
        (
            "Are the files Bridge survey, and also Market rents, there?",
            "Are the files Weir dispute, and also Museum loans, there?",
        ),
        re.compile("Are the files " + _TITLE + ", and also (?P<other>[A-Z][a-z]+(?: [a-z]+)*), there"),
        _look_up_files,
        changes_nothing=True,
    ),
)
