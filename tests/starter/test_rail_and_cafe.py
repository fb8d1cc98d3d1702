"""The ticket office and the café: each rule is enforced, refusals change nothing, another right way earns 1 too."""

from __future__ import annotations

import pytest

from synthesis.formats.answer_form import serialize_answer
from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.runtime.encoding import encode_state
from synthesis.starter import HERE, read_environment, read_json_file, read_tasks
from synthesis.starter.record import build_program, execute_calls

RAIL, CAFE = HERE / "rail_booking", HERE / "cafe_kitchen"
TICKET = {"payer_id": "C-02", "traveller_ids": ["C-02"], "train": "EX 15", "date": "2026-05-12", "origin": "PAM"}
TICKET |= {"destination": "EAS", "travel_class": "second", "fare": "flex"}
TABLE = {"name": "Osei", "guests": 4, "date": "2026-09-21", "start": "18:00", "table_id": "T-3"}


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return get_default_sandbox()


def play(sandbox, folder, scene, *calls):
    state = read_json_file(folder, "scenarios.json")[scene]["initial_state"]
    with sandbox.reset(build_program(read_environment(folder)), encode_state(state)) as episode:
        return [episode.call(tool, arguments) for tool, arguments in calls], episode.state()


REFUSED = [
    # Saver tickets: sold early, bound to their train, not for refunds on the day.
    (RAIL, 0, "book_tickets", TICKET | {"fare": "saver", "date": "2026-05-08"}, "until 3 days before"),
    (RAIL, 0, "rebook", {"booking_id": "B-101", "train": "EX 16", "date": "2026-05-08"}, "bound to their train"),
    (RAIL, 1, "remove_travellers", {"booking_id": "B-219", "traveller_ids": ["C-14"]}, "saver booking"),
    # What runs, and where.
    (RAIL, 0, "book_tickets", TICKET | {"destination": "JUN"}, "does not stop at Juniper Head"),
    (RAIL, 0, "book_tickets", TICKET | {"origin": "EAS", "destination": "PAM"}, "does not go from"),
    (RAIL, 0, "book_tickets", TICKET | {"train": "EX 11", "date": "2026-05-09"}, "does not run on"),
    (RAIL, 0, "book_tickets", TICKET | {"train": "EX 11", "date": "2026-05-06"}, "has left"),
    (RAIL, 0, "book_tickets", TICKET | {"date": "2026-09-12"}, "90 days ahead"),
    (RAIL, 1, "book_tickets", TICKET | {"train": "EX 13", "date": "2026-11-12"}, "is cancelled"),
    # Who travels.
    (RAIL, 0, "book_tickets", TICKET | {"traveller_ids": ["C-05", "C-06"]}, "15 or older"),
    (RAIL, 0, "book_tickets", TICKET | {"traveller_ids": ["C-02", "C-02"]}, "named twice"),
    (RAIL, 0, "book_tickets", TICKET | {"traveller_ids": ["C-01"], "date": "2026-05-09"}, "already travels"),
    # Seats and bicycle places.
    (RAIL, 1, "rebook", {"booking_id": "B-207", "train": "EX 15", "date": "2026-11-12"}, "1 first class seats left"),
    (RAIL, 1, "reserve_bicycles", {"booking_id": "B-217", "places": 1}, "0 bicycle places left"),
    (RAIL, 0, "reserve_bicycles", {"booking_id": "B-104", "places": 5}, "one bicycle place for each"),
    # Cards, lateness.
    (RAIL, 0, "sell_card", {"customer_id": "C-02", "kind": "card25"}, "last 30 days"),
    (RAIL, 0, "sell_card", {"customer_id": "C-03", "kind": "card25"}, "lesser card"),
    (RAIL, 0, "sell_card", {"customer_id": "C-05", "kind": "card25"}, "15 or older"),
    (RAIL, 1, "compensate_delay", {"booking_id": "B-201"}, "was not 60 minutes late"),
    (RAIL, 1, "compensate_delay", {"booking_id": "B-222"}, "compensated before"),
    (RAIL, 1, "refund_booking", {"booking_id": "B-202"}, "has left"),
    (RAIL, 0, "register_customer", {"name": "rosa jiménez", "born": "1958-01-30"}, "already customer C-18"),
    # Allergies and swaps.
    (CAFE, 0, "add_dish", {"order_id": "O-304", "dish_id": "D-07", "quantity": 1}, "contains gluten"),
    (CAFE, 0, "add_dish", {"order_id": "O-304", "dish_id": "D-13", "quantity": 1, "swaps": ["I-03"]}, "gluten"),
    (CAFE, 0, "add_dish", {"order_id": "O-303", "dish_id": "D-09", "quantity": 1, "swaps": ["I-12"]}, "no swap"),
    (CAFE, 0, "add_dish", {"order_id": "O-303", "dish_id": "D-09", "quantity": 5}, "not enough Feta"),
    # Tables.
    (CAFE, 0, "reserve_table", TABLE | {"guests": 5}, "1 to 4 guests"),
    (CAFE, 0, "reserve_table", TABLE | {"guests": 2, "table_id": "T-6"}, "fewer than 3"),
    (CAFE, 0, "reserve_table", TABLE | {"start": "20:15"}, "from 09:00 to 20:00"),
    (CAFE, 0, "reserve_table", TABLE | {"start": "18:10"}, "quarter of an hour"),
    (CAFE, 0, "reserve_table", TABLE | {"date": "2026-09-18", "start": "11:30"}, "that time is over"),
    (CAFE, 0, "reserve_table", TABLE | {"date": "2026-09-18"}, "taken by reservation R-61"),
    (CAFE, 0, "reserve_table", TABLE | {"allergies": ["dairy"]}, "allergens are"),
    (CAFE, 0, "open_order", {"table_id": "T-9", "guests": 5}, "taken within two hours"),
    (CAFE, 0, "open_order", {"table_id": "T-4", "guests": 5}, "open order"),
    (CAFE, 1, "open_order", {"table_id": "T-5", "guests": 4, "reservation_id": "R-91"}, "is for table T-3"),
    # The bill.
    (CAFE, 0, "settle_order", {"order_id": "O-302", "method": "card"}, "Not everything"),
    (CAFE, 0, "take_off_dish", {"order_id": "O-302", "dish_id": "D-08", "quantity": 1}, "0 portions"),
    # Suppliers and stock.
    (CAFE, 0, "place_purchase", {"supplier_id": "S-1", "packs": {"I-03": 2}}, "delivers from 800"),
    (CAFE, 0, "place_purchase", {"supplier_id": "S-1", "packs": {"I-14": 2}}, "does not sell"),
    (CAFE, 0, "receive_delivery", {"purchase_id": "P-41"}, "due on 2026-09-23"),
    (CAFE, 0, "receive_delivery", {"purchase_id": "P-44", "missing": {"I-14": 5}}, "4 packs of I-14"),
    (CAFE, 0, "discard_lot", {"lot_id": "L-23", "reason": "expired"}, "does not fit"),
    (CAFE, 0, "discard_lot", {"lot_id": "L-29", "reason": "spoiled"}, "does not fit"),
]


@pytest.mark.parametrize(("folder", "scene", "tool", "arguments", "reason"), REFUSED)
def test_rules_are_enforced_and_a_refusal_changes_nothing(sandbox, folder, scene, tool, arguments, reason):
    (result,), _ = play(sandbox, folder, scene, (tool, arguments))
    assert result.ok
    assert result.result["success"] is False
    assert reason in result.result["error"]
    assert result.patch == []


def test_a_group_pays_less_and_loses_that_when_it_shrinks(sandbox):
    people = ["C-01", "C-02", "C-04", "C-16", "C-18", "C-19"]
    calls = [("book_tickets", TICKET | {"traveller_ids": people})]
    calls.append(("remove_travellers", {"booking_id": "B-119", "traveller_ids": ["C-01"]}))
    (booked, fewer), state = play(sandbox, RAIL, 0, *calls)
    assert booked.result["paid_cents"] == 6 * 3560
    assert fewer.result["difference_cents"] == 4 * 5080 + 3810 - 6 * 3560
    assert state["bookings"]["B-119"]["price_cents"] == 4 * 5080 + 3810


def test_a_card_counts_only_while_it_is_valid(sandbox):
    quotes = [
        ("quote_fare", {**TICKET, "date": day, "traveller_ids": ["C-12"]}) for day in ("2026-05-20", "2026-05-21")
    ]
    for _, arguments in quotes:
        del arguments["payer_id"]
    results, _ = play(sandbox, RAIL, 0, *quotes)
    assert [result.result["total_cents"] for result in results] == [3810, 5080]


def test_a_cancelled_train_frees_a_saver_ticket_for_two_days(sandbox):
    moves = [("rebook", {"booking_id": "B-205", "train": "EX 15", "date": f"2026-11-{day}"}) for day in (15, 14)]
    results, _ = play(sandbox, RAIL, 1, *moves)
    assert [result.result["success"] for result in results] == [False, True]
    assert results[1].result["difference_cents"] == 0


def test_what_is_taken_off_an_order_goes_back_to_the_lots_it_came_from(sandbox):
    add = {"order_id": "O-401", "dish_id": "D-04", "quantity": 8}
    _, before = play(sandbox, CAFE, 1)
    _, after = play(sandbox, CAFE, 1, ("add_dish", add), ("take_off_dish", add))
    assert after["lots"] == before["lots"]
    assert after["orders"] == before["orders"]


def test_the_lot_that_ends_first_is_used_first(sandbox):
    _, state = play(sandbox, CAFE, 1, ("add_dish", {"order_id": "O-401", "dish_id": "D-04", "quantity": 7}))
    assert (state["lots"]["L-16"]["amount"], state["lots"]["L-17"]["amount"]) == (0, 420)


FAMILY = ["C-06", "C-05", "C-04", "C-03"]
FRIDAY = {"payer_id": "C-03", "traveller_ids": FAMILY, "date": "2026-05-08", "fare": "flex"}
EXPRESS = FRIDAY | {"train": "EX 13", "origin": "BRW", "destination": "CAL", "travel_class": "first"}
COAST = FRIDAY | {"train": "RC 55", "origin": "CAL", "destination": "HOL", "travel_class": "second"}
FIVE = {"payer_id": "C-11", "traveller_ids": ["C-11", "C-12", "C-13", "C-18", "C-19"], "fare": "flex"}
SATURDAY, SUNDAY = FIVE | {"date": "2026-11-14"}, FIVE | {"date": "2026-11-15"}
OUT = SATURDAY | {"train": "RE 31", "origin": "PAM", "destination": "CAL", "travel_class": "second"}
ON = SATURDAY | {"train": "RC 51", "origin": "CAL", "destination": "HOL", "travel_class": "second"}
BACK = SUNDAY | {"train": "RC 56", "origin": "HOL", "destination": "CAL", "travel_class": "second"}
HOME = SUNDAY | {"train": "EX 18", "origin": "CAL", "destination": "PAM", "travel_class": "first"}
TONIGHT = {"name": "Villanueva", "guests": 6, "date": "2026-10-04", "start": "19:00", "table_id": "T-4"}
OTHER_WAYS = {
    "rail-family-friday": (
        [
            *[("refund_booking", {"booking_id": key}) for key in ("B-103", "B-104")],
            ("book_tickets", EXPRESS),
            ("book_tickets", COAST),
            *[("reserve_bicycles", {"booking_id": "B-120", "places": 1})] * 2,
        ],
        {"on_top": 25.6},
    ),
    "rail-hiking-club": (
        [
            ("sell_card", {"customer_id": "C-12", "kind": "card25"}),
            *[("refund_booking", {"booking_id": f"B-{key}"}) for key in (214, 215, 216, 217, 219, 220)],
            *[("book_tickets", arguments) for arguments in (OUT, ON, BACK, HOME)],
            ("reserve_bicycles", {"booking_id": "B-224", "places": 2}),
            ("compensate_delay", {"booking_id": "B-218"}),
        ],
        {"received": 93.6},
    ),
    "cafe-rain-tonight": (
        [
            ("place_purchase", {"supplier_id": "S-1", "packs": {"I-26": 1, "I-03": 6}}),
            ("move_reservation", {"reservation_id": "R-96", "table_id": "T-5"}),
            ("cancel_reservation", {"reservation_id": "R-95"}),
            ("reserve_table", TONIGHT),
            ("move_reservation", {"reservation_id": "R-97", "table_id": "T-6"}),
            ("move_reservation", {"reservation_id": "R-94", "table_id": "T-12"}),
            ("cancel_reservation", {"reservation_id": "R-93"}),
            ("move_reservation", {"reservation_id": "R-101", "guests": 10, "start": "19:00"}),
        ],
        {"cost": 8.7},
    ),
}


@pytest.mark.parametrize("key", OTHER_WAYS)
@pytest.mark.slow
def test_another_right_way_earns_everything_and_a_wrong_answer_does_not(sandbox, key):
    folder = RAIL if key.startswith("rail") else CAFE
    task = next(task for task in read_tasks(folder) if task.key == key)
    steps, answer = OTHER_WAYS[key]
    calls = [{"tool": tool, "arguments": arguments} for tool, arguments in steps]
    program = build_program(read_environment(folder))
    assert execute_calls(sandbox, program, task, calls, serialize_answer(answer))[1].reward == 1
    for other in ("", serialize_answer({}), str(*answer.values())):
        assert execute_calls(sandbox, program, task, calls, other)[1].reward < 1
