"""The parcel depot: rules that its tools enforce, and other right ways to its harder tasks."""

from __future__ import annotations

import pytest

from synthesis.formats.answer_form import serialize_answer
from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.runtime.encoding import encode_state
from synthesis.starter import HERE, read_environment, read_json_file, read_references, read_tasks
from synthesis.starter.record import build_program, execute_calls

FOLDER = HERE / "parcel_depot"
REFERENCES = read_references(FOLDER)


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return get_default_sandbox()


def call(tool: str, **arguments: object) -> dict[str, object]:
    return {"tool": tool, "arguments": arguments}


def play(sandbox, index, *calls):
    program = build_program(read_environment(FOLDER))
    state = read_json_file(FOLDER, "scenarios.json")[index]["initial_state"]
    with sandbox.reset(program, encode_state(state)) as episode:
        return [episode.call(item["tool"], item["arguments"]) for item in calls]


def earned(sandbox, key, calls, answer):
    task = next(task for task in read_tasks(FOLDER) if task.key == key)
    results, reward = execute_calls(
        sandbox, build_program(read_environment(FOLDER)), task, calls, serialize_answer(answer)
    )
    assert all(result.result["success"] for result in results)
    return reward.reward


TUESDAY = {"date": "2026-05-12", "zone": "Harbour", "departs": "13:00"}
SATURDAY = {"date": "2026-11-21", "zone": "Meadows", "departs": "07:30"}
REFUSED = [
    # Bays: zone, room, kind.
    (0, call("move_parcel", parcel_id="P-1014", bay_id="B5"), "is for Hillside"),
    (1, call("move_parcel", parcel_id="P-2016", bay_id="B6"), "2 places free, the parcel needs 4"),
    (0, call("move_parcel", parcel_id="P-1014", bay_id="B9"), "only by a hold"),
    (0, call("move_parcel", parcel_id="P-1014", bay_id="B3"), "already lies"),
    (0, call("move_parcel", parcel_id="P-1013", bay_id="B3"), "is loaded"),
    # Holds.
    (0, call("move_parcel", parcel_id="P-1011", bay_id="B1"), "held for damage"),
    (0, call("load_parcel", parcel_id="P-1005", tour_id="T-204"), "held for customs"),
    (0, call("book_redelivery", parcel_id="P-1005", date="2026-05-13", window="morning"), "held for customs"),
    (0, call("report_damage", parcel_id="P-1005", extent="packaging"), "held for customs"),
    # Tours: money, express, promises, van, load that stands.
    (0, call("load_parcel", parcel_id="P-1024", tour_id="T-204"), "120 cents are still open"),
    (0, call("load_parcel", parcel_id="P-1006", tour_id="T-204"), "promised for 2026-05-12 in the afternoon"),
    (0, call("load_parcel", parcel_id="P-1007", tour_id="T-204"), "waits for a new date"),
    (0, call("load_parcel", parcel_id="P-1014", tour_id="T-204"), "goes to Harbour"),
    (1, call("load_parcel", parcel_id="P-2018", tour_id="T-405"), "only at 07:30"),
    (1, call("load_parcel", parcel_id="P-2015", tour_id="T-404"), "0 places free"),
    (1, call("load_parcel", parcel_id="P-2025", tour_id="T-403"), "is released"),
    (1, call("unload_parcel", parcel_id="P-2026", bay_id="B7"), "is released"),
    (1, call("unload_parcel", parcel_id="P-2025", bay_id="B7"), "is not loaded"),
    (1, call("release_tour", tour_id="T-403"), "is released"),
    (0, call("release_tour", tour_id="T-204"), "Nothing is loaded"),
    # Crew.
    (0, call("plan_tour", **TUESDAY, van_id="V-4", driver_id="D-3"), "in the workshop"),
    (0, call("plan_tour", **TUESDAY, van_id="V-2", driver_id="D-3"), "Heron is already out"),
    (0, call("plan_tour", **TUESDAY, van_id="V-3", driver_id="D-2"), "already out on 2026-05-12 at 13:00"),
    (0, call("plan_tour", **TUESDAY, van_id="V-3", driver_id="D-4"), "does not work"),
    (0, call("plan_tour", **TUESDAY, van_id="V-3", driver_id="D-1"), "does not drive to Harbour"),
    (
        0,
        call("plan_tour", date="2026-05-12", zone="Meadows", departs="13:00", van_id="V-5", driver_id="D-5"),
        "licence C1",
    ),
    (
        1,
        call("plan_tour", date="2026-11-21", zone="Meadows", departs="17:30", van_id="V-3", driver_id="D-6"),
        "already has 2",
    ),
    (
        1,
        call("plan_tour", date="2026-11-20", zone="Meadows", departs="07:30", van_id="V-1", driver_id="D-5"),
        "is over",
    ),
    (
        1,
        call("plan_tour", date="2026-11-22", zone="Meadows", departs="07:30", van_id="V-1", driver_id="D-5"),
        "not for a Sunday",
    ),
    (1, call("plan_tour", date="2026-11-28", zone="Meadows", departs="07:30", van_id="V-1", driver_id="D-5"), "7 days"),
    (1, call("plan_tour", date="2026-11-21", zone="Moon", departs="07:30", van_id="V-1", driver_id="D-5"), "Zones are"),
    # Customs.
    (0, call("clear_customs", parcel_id="P-1005", tariff="other"), "has not come yet"),
    (0, call("clear_customs", parcel_id="P-1001", tariff="books"), "not held for customs"),
    # Damage.
    (1, call("settle_damage", parcel_id="P-2020", outcome="repack"), "its sender wants it so"),
    (0, call("settle_damage", parcel_id="P-1011", outcome="repack"), "contents are broken"),
    (0, call("settle_damage", parcel_id="P-1001", outcome="repack"), "not held for damage"),
    # Promises.
    (0, call("book_redelivery", parcel_id="P-1001", date="2026-05-14", window="morning"), "has failed"),
    (0, call("book_redelivery", parcel_id="P-1030", date="2026-05-14", window="morning"), "kept for collection"),
    (0, call("book_redelivery", parcel_id="P-1007", date="2026-05-12", window="morning"), "from tomorrow"),
    (0, call("book_redelivery", parcel_id="P-1007", date="2026-05-17", window="morning"), "not a Sunday"),
    (0, call("book_redelivery", parcel_id="P-1007", date="2026-05-23", window="morning"), "10 days"),
    # Money.
    (0, call("collect_charge", parcel_id="P-1024", cents=121), "120 cents are open"),
    (0, call("collect_charge", parcel_id="P-1001", cents=1), "0 cents are open"),
    # Arguments.
    (0, call("list_fleet", date="2026-5-12"), "YYYY-MM-DD"),
    (0, call("get_parcel", parcel_id="P-9"), "No parcel P-9"),
]


@pytest.mark.parametrize(("index", "attempt", "reason"), REFUSED)
def test_rules_are_enforced_and_a_refusal_changes_nothing(sandbox, index, attempt, reason):
    (result,) = play(sandbox, index, attempt)
    assert result.ok, result.error
    assert result.result["success"] is False
    assert reason in result.result["error"]
    assert result.patch == []


def test_a_heavy_parcel_needs_a_tail_lift(sandbox):
    *_, result = play(
        sandbox,
        1,
        call("plan_tour", date="2026-11-23", zone="Meadows", van_id="V-2", driver_id="D-5", departs="13:00"),
        call("load_parcel", parcel_id="P-2007", tour_id="T-408"),
    )
    assert "no tail lift" in result.result["error"]


def test_the_evening_is_charged_once(sandbox):
    book = {"parcel_id": "P-1007", "window": "evening"}
    results = play(
        sandbox,
        0,
        call("book_redelivery", date="2026-05-13", **book),
        call("book_redelivery", date="2026-05-14", **book),
    )
    assert [result.result["owed_cents"] for result in results] == [350, 350]


def test_the_tailor_may_pay_in_parts_and_the_shelves_fill_in_another_order(sandbox):
    calls = [
        call("clear_customs", parcel_id="P-1022", tariff="books"),
        call("move_parcel", parcel_id="P-1022", bay_id="B5"),
        call("clear_customs", parcel_id="P-1021", tariff="electronics"),
        call("move_parcel", parcel_id="P-1021", bay_id="B6"),
        call("collect_charge", parcel_id="P-1021", cents=1000),
        call("collect_charge", parcel_id="P-1021", cents=1280),
        call("clear_customs", parcel_id="P-1020", tariff="clothing"),
        call("collect_charge", parcel_id="P-1020", cents=4320),
        call("move_parcel", parcel_id="P-1020", bay_id="B5"),
    ]
    assert earned(sandbox, "parcels-tailor-customs", calls, {"paid": 66}) == 1


def test_the_harbour_run_may_be_loaded_backwards_and_corrected(sandbox):
    *others, plan, release = [
        *(
            item
            for item in REFERENCES["parcels-harbour-run"]["calls"]
            if item["tool"] in ("collect_charge", "load_parcel")
        ),
        call("plan_tour", **TUESDAY, van_id="V-3", driver_id="D-3"),
        call("release_tour", tour_id="T-205"),
    ]
    pay, *loads = others
    wrong = [
        call("unload_parcel", parcel_id="P-1001", bay_id="B1"),
        call("load_parcel", parcel_id="P-1001", tour_id="T-205"),
    ]
    assert earned(sandbox, "parcels-harbour-run", [plan, pay, *reversed(loads), *wrong, release], {"weight": 82.4}) == 1


def test_hillside_may_be_swapped_over_the_other_shelf(sandbox):
    calls = []
    for key in ("P-2012", "P-2010", "P-2011"):
        if key == "P-2012":
            calls.append(call("move_parcel", parcel_id="P-2015", bay_id="B6"))
            calls.append(call("unload_parcel", parcel_id="P-2010", bay_id="B5"))
            calls.append(call("load_parcel", parcel_id="P-2010", tour_id="T-405"))
            calls.append(call("move_parcel", parcel_id="P-2015", bay_id="B5"))
            calls.append(call("load_parcel", parcel_id="P-2015", tour_id="T-404"))
            calls.append(call("unload_parcel", parcel_id="P-2012", bay_id="B5"))
        elif key == "P-2011":
            calls.append(call("unload_parcel", parcel_id=key, bay_id="B6"))
    calls.append(call("load_parcel", parcel_id="P-2012", tour_id="T-405"))
    calls.append(call("load_parcel", parcel_id="P-2011", tour_id="T-405"))
    calls.append(call("load_parcel", parcel_id="P-2016", tour_id="T-404"))
    calls.append(call("release_tour", tour_id="T-404"))
    assert earned(sandbox, "parcels-hillside-swap", calls, {"weight": 34.25}) == 1


def test_the_music_school_may_be_served_in_another_order(sandbox):
    calls = [
        item for item in REFERENCES["parcels-music-school"]["calls"] if not item["tool"].startswith(("find", "list"))
    ]
    drum = [item for item in calls if item["arguments"].get("parcel_id") == "P-2008"]
    plan = next(item for item in calls if item["tool"] == "plan_tour")
    scores = next(item for item in calls if item["tool"] == "book_redelivery")
    last = calls[-1]
    middle = [item for item in calls if item not in (*drum, plan, scores, last)]
    shelf = [call("move_parcel", parcel_id="P-2001", bay_id="B7")]
    at = next(i for i, item in enumerate(middle) if item["tool"] == "load_parcel")
    calls = [*drum, plan, scores, *middle[:at], *shelf, *reversed(middle[at:]), last]
    assert earned(sandbox, "parcels-music-school", calls, {"paid": 43.4}) == 1
