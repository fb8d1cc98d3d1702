"""The club ledger: rules that its tools enforce, and other right ways to its harder tasks."""

from __future__ import annotations

import pytest

from synthesis.formats.answer_form import serialize_answer
from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.runtime.encoding import encode_state
from synthesis.starter import HERE, read_environment, read_json_file, read_references, read_tasks
from synthesis.starter.record import build_program, execute_calls

FOLDER = HERE / "club_ledger"
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


def earned(sandbox, key, calls, answer, refused=()):
    task = next(task for task in read_tasks(FOLDER) if task.key == key)
    results, reward = execute_calls(
        sandbox, build_program(read_environment(FOLDER)), task, calls, serialize_answer(answer)
    )
    assert [index for index, result in enumerate(results) if not result.result["success"]] == list(refused)
    return reward.reward


MATS = {"year": 2025, "section": "gymnastics", "vendor": "Matten Vogel", "category": "equipment"}
REFUSED = [
    # Bills.
    (1, call("issue_invoice", member_id="M-140", year=2026, subject="annual_fee"), "already billed"),
    (1, call("issue_invoice", member_id="M-131", year=2025, subject="annual_fee"), "joined only on"),
    (1, call("issue_invoice", member_id="M-143", year=2026, subject="annual_fee"), "has left"),
    (0, call("issue_invoice", member_id="M-101", year=2025, subject="boat_berth"), "2025 is closed"),
    (0, call("issue_invoice", member_id="M-101", year=2027, subject="boat_berth"), "no year 2027"),
    # Money that came in.
    (0, call("assign_payment", bank_line_id="B-710", invoice_id="I-310", cents=6001), "give 1 to 6000"),
    (0, call("assign_payment", bank_line_id="B-701", invoice_id="I-301", cents=1), "0 cents are unassigned"),
    (0, call("assign_payment", bank_line_id="B-710", invoice_id="I-304", cents=1), "is settled"),
    (0, call("assign_payment", bank_line_id="B-799", invoice_id="I-301", cents=1), "No bank line B-799"),
    (0, call("assign_payment", bank_line_id="B-703", invoice_id="I-301", cents=100), "as a whole"),
    # Reversals.
    (0, call("reverse_payment", payment_id="Z-47", reason="returned_debit"), "only debits"),
    (1, call("reverse_payment", payment_id="Z-10", reason="wrong_invoice"), "60 days"),
    # Reminders.
    (0, call("send_reminder", invoice_id="I-309"), "2026-03-23"),
    (0, call("send_reminder", invoice_id="I-325"), "2026-03-21"),
    (0, call("send_reminder", invoice_id="I-326"), "2026-04-03"),
    (0, call("send_reminder", invoice_id="I-311"), "instalments until 2026-06-30"),
    (0, call("send_reminder", invoice_id="I-315"), "is settled"),
    # Credits.
    (0, call("credit_invoice", invoice_id="I-301", cents=5001, reason="hardship"), "needs a resolution"),
    (
        0,
        call("credit_invoice", invoice_id="I-301", cents=9000, reason="hardship", resolution_id="R-12"),
        "No resolution",
    ),
    (0, call("credit_invoice", invoice_id="I-327", cents=5500, reason="hardship", resolution_id="R-13"), "grants 6000"),
    (0, call("credit_invoice", invoice_id="I-301", cents=24001, reason="hardship"), "24000 cents are still"),
    (0, call("credit_invoice", invoice_id="I-301", cents=100, reason="left_club"), "has not left"),
    (
        1,
        call("credit_invoice", invoice_id="I-213", cents=6000, reason="hardship", resolution_id="R-14"),
        "was used for",
    ),
    # Budgets.
    (1, call("record_expense", **MATS, cents=31000), "24760 cents are left"),
    (1, call("record_expense", **{**MATS, "vendor": "Matten Vogel Ltd"}, cents=100), "vendors are"),
    (1, call("record_expense", **{**MATS, "section": "golf"}, cents=100), "No budget for golf"),
    (1, call("record_expense", **{**MATS, "year": 2024}, cents=100), "2024 is closed"),
    (1, call("transfer_budget", year=2025, from_section="chess", to_section="gymnastics", cents=7201), "at most 7200"),
    (1, call("transfer_budget", year=2025, from_section="chess", to_section="chess", cents=1), "must differ"),
    # Years.
    (1, call("close_year", year=2025), "B-720, B-721, B-722; invoices still open: I-210"),
    (1, call("close_year", year=2026), "is not over"),
    (1, call("close_year", year=2024), "is closed"),
    (1, call("carry_over_invoice", invoice_id="I-217"), "Only invoices of earlier years"),
    (1, call("carry_over_invoice", invoice_id="I-214"), "has to be credited"),
]


@pytest.mark.parametrize(("index", "attempt", "reason"), REFUSED)
def test_rules_are_enforced_and_a_refusal_changes_nothing(sandbox, index, attempt, reason):
    (result,) = play(sandbox, index, attempt)
    assert result.ok, result.error
    assert result.result["success"] is False
    assert reason in result.result["error"]
    assert result.patch == []


def test_a_third_reminder_suspends_until_everything_overdue_is_paid(sandbox):
    results = play(
        sandbox,
        0,
        call("send_reminder", invoice_id="I-317"),
        call("issue_invoice", member_id="M-117", year=2026, subject="locker"),
        call("assign_payment", bank_line_id="B-714", invoice_id="I-317", cents=24500),
        call("get_member", member_id="M-117"),
        call("credit_invoice", invoice_id="I-317", cents=1000, reason="hardship"),
        call("issue_invoice", member_id="M-117", year=2026, subject="locker"),
        call("send_reminder", invoice_id="I-317"),
    )
    assert results[0].result["fee_cents"] == 1000
    assert "suspended" in results[1].result["error"]
    assert results[3].result["member"]["status"] == "suspended"
    assert results[5].result["success"]
    assert "is settled" in results[6].result["error"]


def test_fees_are_halved_from_july_on_and_from_the_third_of_a_household(sandbox):
    results = play(
        sandbox,
        1,
        *(call("issue_invoice", member_id=f"M-{n}", year=2026, subject="annual_fee") for n in (133, 131, 134, 132)),
    )
    assert [result.result["cents"] for result in results] == [6000, 24000, 6000, 24000]


def test_a_closed_year_stays_as_it_is(sandbox):
    calls = [*REFERENCES["ledger-close-2025"]["calls"], call("record_expense", **MATS, cents=1)]
    assert "2025 is closed" in play(sandbox, 1, *calls)[-1].result["error"]


def test_the_rowing_round_may_be_done_in_another_order_and_try_too_much(sandbox):
    calls = [item for item in REFERENCES["ledger-rowing-round"]["calls"] if not item["tool"].startswith("list")]
    money = [item for item in calls if item["tool"] == "assign_payment"]
    back = next(item for item in calls if item["tool"] == "reverse_payment")
    reminders = [item for item in calls if item["tool"] == "send_reminder"]
    parts = [call("assign_payment", bank_line_id="B-710", invoice_id="I-306", cents=n) for n in (10000, 14000)]
    tries = [call("send_reminder", invoice_id=key) for key in ("I-309", "I-311")]
    paid = [item for item in money[1:] if item["arguments"]["bank_line_id"] != "B-710"]
    done = [reminders[0], *parts, *reversed(paid), back, money[0], *tries, *reversed(reminders[1:])]
    refused = [done.index(item) for item in tries]
    assert earned(sandbox, "ledger-rowing-round", done, {"fees": 20}, refused) == 1
    assert earned(sandbox, "ledger-rowing-round", done, {"fees": 30}, refused) < 1


def test_the_family_may_be_billed_and_paid_one_by_one(sandbox):
    calls, money = [], {"M-131": 24000, "M-132": 24000, "M-134": 6000, "M-133": 6000}
    for number, (member, cents) in enumerate(money.items(), 220):
        calls.append(call("issue_invoice", member_id=member, year=2026, subject="annual_fee"))
        calls.append(call("assign_payment", bank_line_id="B-731", invoice_id=f"I-{number}", cents=cents))
    calls.append(call("issue_invoice", member_id="M-133", year=2026, subject="course"))
    calls.append(call("assign_payment", bank_line_id="B-731", invoice_id="I-224", cents=3000))
    assert earned(sandbox, "ledger-new-family", calls, {"remaining": 65}) == 1


def test_the_year_may_be_closed_in_another_order(sandbox):
    calls = [item for item in REFERENCES["ledger-close-2025"]["calls"] if not item["tool"].startswith(("list", "get"))]
    *others, transfer, mats, close = calls
    credits = [item for item in others if item["tool"] == "credit_invoice"]
    carried = [item for item in others if item["tool"] == "carry_over_invoice"]
    money = [item for item in others if item["tool"] == "assign_payment"]
    halves = [{**transfer, "arguments": {**transfer["arguments"], "cents": cents}} for cents in (6000, 240)]
    calls = [close, mats, *halves, mats, *credits, carried[1], *reversed(money), carried[0], close]
    assert earned(sandbox, "ledger-close-2025", calls, {"surplus": 577.55}, (0, 1)) == 1
    assert earned(sandbox, "ledger-close-2025", calls, {"surplus": 2175}, (0, 1)) < 1
