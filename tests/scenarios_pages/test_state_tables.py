"""Tables of the records a task is about: what the reference changes stands out, what it names is there."""

from __future__ import annotations

from synthesis.contracts import ReferenceCall
from webapp.scenarios.state_tables import BESIDE, build_state_tables


def test_changed_added_removed_and_named_records_are_told_apart() -> None:
    before = {
        "rooms": {f"R{n}": {"beds": n, "state": "free", "log": []} for n in range(20)},
        "guests": [{"guest_id": 7, "name": "Ida"}, {"guest_id": 8, "name": "Bo"}, {"guest_id": 9, "name": "Cy"}],
        "keys": {"R3": {"hook": 1}},
        "next": 4,
        "title": "Inn",
    }
    after = {
        "rooms": before["rooms"] | {"R3": {"beds": 3, "state": "taken", "log": [{"who": 7}]}},
        "guests": [*before["guests"][1:], {"guest_id": 10, "name": "Di"}],  # type: ignore[index]
        "keys": {"R3": {"hook": 1}},
        "next": 5,
        "title": "Inn",
    }
    calls = [ReferenceCall(tool="check_in", arguments={"guest": {"id": 9}, "room": "R3"})]
    tables = {table.title: table for table in build_state_tables(before, after, calls)}
    assert list(tables) == ["rooms", "guests", "keys", "single values"], "what changes stands first"
    rooms = tables["rooms"]
    assert (len(rooms.rows), rooms.more, rooms.columns) == (BESIDE, 20 - BESIDE, ("state", "log", "beds"))
    room = next(row for row in rooms.rows if row.key == "R3")
    assert (room.change, room.words, [cell.changed for cell in room.cells]) == (
        "changed",
        "changed",
        [True, True, False],
    )
    assert [(cell.before, cell.after) for cell in room.cells[:2]] == [("free", "taken"), ("[]", "1 entry")]
    assert {row.words for row in rooms.rows if row.key != "R3"} == {"stays"}
    assert [(row.key, row.words) for row in tables["guests"].rows] == [
        ("7", "removed"), ("8", "stays"), ("9", "named"), ("10", "added"),
    ]  # fmt: skip
    assert [(row.key, row.named) for row in tables["keys"].rows] == [("R3", True)]
    (counter,) = tables["single values"].rows
    assert (counter.key, counter.cells[0].before, counter.cells[0].after) == ("next", "4", "5")


def test_states_of_any_shape_make_small_tables() -> None:
    wide = {f"field{n}": "x" * 500 for n in range(50)}
    before = {"odd": {"$dict": [[1, {"a": 1}], [2, {"a": 2}]]}, "tags": {"$set": ["a"]}, "wide": {"W": wide}, "n": None}
    after = {"odd": {"$dict": [[1, {"a": 5}]]}, "tags": {"$set": ["a", "b"]}, "wide": {"W": wide | {"field49": 1}}}
    odd, broad, single = build_state_tables(before, after, [])
    assert [(row.key, row.change) for row in odd.rows] == [("1", "changed"), ("2", "removed")]
    assert (broad.columns[0], len(broad.columns)) == ("field49", 6)
    assert max(len(cell.before) for cell in broad.rows[0].cells) <= 60
    assert [(row.key, row.change) for row in single.rows] == [("tags", "changed"), ("n", "removed")]
    assert build_state_tables({}, {}, []) == ()
