"""Reading of answers: each spelling is judged as a person would, and what cannot be told is uncertain, never passed."""

from __future__ import annotations

import json

import pytest

from synthesis.runtime import Sandbox, default_sandbox
from synthesis.runtime.child.answers import (
    MOST_CHARS,
    CannotTell,
    answer_fields,
    denies,
    mentions,
    says_date,
    says_duration,
    says_list,
    says_money,
    says_name,
    says_number,
    says_time,
)

YES, NO, UNCERTAIN = "yes", "no", "uncertain"
PEOPLE = [
    "Amina Yusuf",
    "Olga Sokolova",
    "Gita Sharma",
    "Tessa Wood",
    "Sena Y\u0131ld\u0131r\u0131m",
    "Marek Nowak",
    "Marek Nowicki",
]
TABLE = {"unit": "table", "codes": ("t",), "beside": (4, 6, 7)}
END = {"beside": ("08:00",), "asked": ("finish", "done", "until")}
THURSDAY = {"on": "2026-03-12", "today": "2026-03-09"}
LEFT = {"beside": (18450, 22475), "asked": ("left", "remain")}
KG = {"unit": {"kg": 1, "kilo": 1, "g": "0.001"}}
PLACES = {"unit": ("place", "spot", "free"), "beside": (17, 20)}
OWES = {"beside": (4500,), "asked": ("owe", "open", "remain", "left")}
PAID = {"beside": (240, 350), "asked": ("paid", "total")}
WEDNESDAY = {"weekday": "wednesday", "beside": ("15:30",), "asked": ("first",)}
ARRIVES = {"beside": ("15:10",), "asked": ("arrive", "reach")}
CASES = [
    # (helper, value, options, expected, texts)
    (says_number, 10, TABLE, YES, ["10", "ten", "T-10", "Table ten."]),
    (says_number, 10, TABLE, YES, ["table no. 10", "The answer is **10**.", "Table No 10"]),
    (says_number, 10, TABLE, YES, ["They have table number 10 for six people at 19:00.", "Table 10, not table 12."]),
    (says_number, 10, TABLE, YES, ["Not 12 but 10.", "They move from table 4 to table 10."]),
    (says_number, 10, TABLE, YES, ["It is 12. Correction: 10."]),
    (says_number, 10, TABLE, NO, ["They do not get table 10; they get table 12.", "not 10 but 12"]),
    (says_number, 10, TABLE, NO, ["Table 12, not 10."]),
    (says_number, 10, TABLE, NO, ["", None, "100", "110", "T-100", "They get no table.", "It is 10. No, it is 12."]),
    (says_number, 10, TABLE, NO, ["They do not, as of today, get table 10.", "They don't get table 10."]),
    (says_number, 10, TABLE, UNCERTAIN, ["table 10 or 12", "maybe table 10", "either 10 or 12", "Is it table 10?"]),
    (says_number, 10, TABLE, UNCERTAIN, ["about 10", "tables 10 and 12", "table 10/12"]),
    (says_number, 10, TABLE, UNCERTAIN, ["between 10 and 12", "10 or so"]),
    (says_number, 10, TABLE, UNCERTAIN, ["They get table 10. They get table 12.", "I think it is table 10"]),
    (says_number, 10, TABLE, UNCERTAIN, ["10 is not theirs"]),
    (says_number, 3, {"unit": "place", "beside": (17, 7)}, YES, ["3 of 20 places", "B7 has 3 free places"]),
    (says_number, 3, {"unit": "place", "beside": (17, 7)}, YES, ["three", "3/20 places"]),
    (says_number, 3, {"unit": "place", "beside": (17, 7)}, NO, ["4", "13", "3.5", "no places", "B3", "30"]),
    (says_number, 3, PLACES, YES, ["3 free, 17 taken", "17 are taken and 3 are free", "free: 3, taken: 17"]),
    (says_number, 3, PLACES, YES, ["3 places can still be taken", "With 17 taken there are 3", "17 used, so 3"]),
    (
        says_number,
        3,
        PLACES,
        YES,
        ["I booked her in: 3", "20 minus 17 taken is 3", "17 places taken, 3", "3 (17 are taken)"],
    ),
    (says_number, 3, PLACES, UNCERTAIN, ["17 free, 3 taken", "17 places are free and 3 are taken", "3 are occupied"]),
    (says_number, 3, PLACES, UNCERTAIN, ["free: 17, taken: 3", "Taken: 3. Free: 17.", "3 of 20 places are taken"]),
    (says_number, 0, {"unit": "place"}, YES, ["no places are left", "none", "0", "zero places"]),
    (says_number, 12, {}, YES, ["12", "twelve", "a dozen"]),
    (says_number, "2.5", {}, YES, ["2.5", "2,5", "two and a half", "2½", "2 1/2", "two point five"]),
    (says_number, 1250, {}, YES, ["1250", "1,250", "1.250", "1 250", "1'250", "one thousand two hundred and fifty"]),
    (says_number, "82.4", KG, YES, ["82.4 kg", "82,4", "8 parcels, 82.4 kilograms", "82,400 g"]),
    (says_money, 590, {}, YES, ["5.90", "5,90 €", "EUR5.90", "€5.90"]),
    (says_money, 590, {}, YES, ["590 cents", "five euros ninety", "5 euros 90", "5.9"]),
    (says_money, 590, {}, YES, ["She paid 5.90 by card or cash.", "5.90 euros or 590 cents"]),
    (says_money, 590, {}, YES, ["five euros and ninety cents"]),
    (says_money, 590, {}, YES, ["On Thursday the 14th; she paid 5.90 (P-1012)."]),
    (says_money, 590, {}, YES, ["5.90: 3.50 for the evening, 2.40 storage"]),
    (says_money, 590, {}, NO, ["590 euros", "15.90", "5.905", "-5.90", "59"]),
    (says_money, 590, {}, NO, ["590.00", "5.90 kg", "not 5.90 but 6.90", ""]),
    (says_money, 590, {}, UNCERTAIN, ["590", "590 or 600", "5.90, 6.90", "maybe 5.90", "about 5.90", "5.90 or 3.50"]),
    (says_money, 4025, LEFT, YES, ["40.25", "224.75 minus 184.50 leaves 40.25", "40.25 remain of 224.75"]),
    (says_money, 4025, LEFT, UNCERTAIN, ["224.75 or 40.25", "either 40.25 or 224.75", "45 or 40.25"]),
    (says_money, 4025, LEFT, UNCERTAIN, ["What is left is 224.75; the bill was 40.25."]),
    (says_money, 24000, {}, YES, ["240", "240 euros", "two hundred and forty euros", "24000 cents"]),
    (says_money, 24000, {}, UNCERTAIN, ["45 or 240"]),
    (
        says_money,
        24000,
        OWES,
        YES,
        ["240.00 after the locker is paid", "240.00 must still be paid", "He has to pay 240.00"],
    ),
    (
        says_money,
        24000,
        OWES,
        YES,
        ["With the locker paid it is 240.00", "45.00 paid, 240.00 open", "Locker: paid. 240.00"],
    ),
    (
        says_money,
        24000,
        OWES,
        YES,
        ["He has paid 45.00 and still owes 240.00.", "He has paid the locker: 240.00 are left"],
    ),
    (
        says_money,
        24000,
        OWES,
        UNCERTAIN,
        ["He has paid 240.00.", "240.00 were settled", "240.00 were paid, 45.00 are left"],
    ),
    (
        says_money,
        590,
        PAID,
        YES,
        ["5.90 received by card", "She owes nothing any more, she paid 5.90", "All is paid: 5.90"],
    ),
    (says_money, 590, PAID, UNCERTAIN, ["She owes 5.90.", "5.90 was refunded", "In total 5.90 is unpaid"]),
    (says_money, 159745, {}, YES, ["1,597.45", "1.597,45", "1 597,45", "1'597.45 €"]),
    (says_money, 800, {"bare": "cents"}, YES, ["800", "8.00", "eight euros"]),
    (says_money, 7330, {"asked": ("bill",)}, YES, ["The bill comes to 73.30. Two soups are 23.00 and a bowl 11.40."]),
    (says_money, 590, {"currency": "EUR"}, NO, ["$5.90", "5.90 dollars"]),
    (says_time, "08:15", {}, YES, ["08:15", "8:15", "08.15", "8:15 a.m."]),
    (says_time, "08:15", {}, YES, ["8h15", "0815 hrs", "eight fifteen", "08:15:00"]),
    (says_time, "08:15", {}, YES, ["quarter past eight", "a quarter past eight in the morning"]),
    (says_time, "08:15", {}, YES, ["fifteen minutes past eight"]),
    (says_time, "08:15", {}, NO, ["18:15", "8:150", "8:15 pm"]),
    (says_time, "08:15", {}, NO, ["quarter past eight in the evening", "not 08:15 but 08:30"]),
    (says_time, "08:15", {}, UNCERTAIN, ["08:15 or 08:30", "maybe 8:15", "at about 8:15", "08:15, 09:30"]),
    (says_time, "17:40", {}, YES, ["5:40 pm", "twenty to six", "They won't arrive until 17:40."]),
    (says_time, "12:00", {}, YES, ["noon", "12 p.m.", "twelve o'clock", "midday"]),
    (says_time, "08:30", END, YES, ["from 08:00 to 08:30", "It starts at 08:00 and she'll be finished at 08:30."]),
    (says_time, "08:30", END, YES, ["08:00-08:30"]),
    (says_time, "08:30", END, UNCERTAIN, ["She'll be finished at 08:00; she starts at 08:30."]),
    (says_time, "08:30", END, UNCERTAIN, ["done at 08:00, starts 08:30"]),
    (says_time, "10:00", THURSDAY, YES, ["Thursday at 10"]),
    (says_time, "10:00", THURSDAY, YES, ["Your test tomorrow at 13:15 has been moved to Thursday at 10:00."]),
    (says_time, "10:00", THURSDAY, YES, ["moved from Tuesday 10 March 13:15 to Thursday 12 March at 10:00"]),
    (says_time, "17:00", {**THURSDAY, "on": "2026-03-11"}, UNCERTAIN, ["Friday 17:00", "Tuesday 17:00"]),
    (says_time, "17:00", {**THURSDAY, "on": "2026-03-11"}, UNCERTAIN, ["tomorrow at 17:00"]),
    (says_time, "17:00", {**THURSDAY, "on": "2026-03-11"}, UNCERTAIN, [["Friday 17:00", "Wednesday 17:00"]]),
    (says_time, "08:30", END, UNCERTAIN, ["She starts at 08:30.", "It begins at half past eight"]),
    (says_time, "08:30", END, YES, ["It starts at 08:00, so 08:30", "start 08:00 end 08:30"]),
    (says_time, "17:40", ARRIVES, YES, ["They leave at 15:10 and are there at 17:40.", "17:40 (they leave at 15:10)"]),
    (says_time, "17:40", ARRIVES, UNCERTAIN, ["They leave at 17:40.", "departs 17:40, arrives 19:00"]),
    (says_time, "08:15", WEDNESDAY, YES, ["On Wednesday at 08:15.", "At 08:15; I cancelled Tuesday 17:15."]),
    (says_time, "08:15", WEDNESDAY, YES, ["Tuesday's test is off. At 08:15.", "08:15 on Wednesday, 15:30 on Thursday"]),
    (says_time, "08:15", WEDNESDAY, UNCERTAIN, ["On Tuesday at 08:15.", "08:15 (Friday)", "Thursday, 5 March, 08:15"]),
    (
        says_date,
        "2026-04-16",
        {},
        YES,
        ["16 April 2026, which is a Thursday", "Thu., 16 Apr", "Thursday - 16 April 2026"],
    ),
    (
        says_date,
        "2026-04-16",
        {"today": "2026-03-10"},
        YES,
        ["16 April 2026 is a Thursday", "It is a Thursday: 16 April"],
    ),
    (
        says_date,
        "2026-04-16",
        {},
        NO,
        ["on Tuesday 16 April 2026", "16 April 2026, which is a Tuesday", "Tue., 16 Apr"],
    ),
    (
        says_date,
        "2026-04-16",
        {},
        NO,
        ["on Tuesday, that is 16 April", "16 April 2026 (a Tuesday)", "Due Tuesday: 16 April"],
    ),
    (says_date, "2026-04-16", {}, YES, ["16. April 2026", "April 16th", "16/04/2026"]),
    (says_date, "2026-04-16", {}, YES, ["04/16/2026", "16.4.2026", "2026-04-16"]),
    (says_date, "2026-04-16", {}, YES, ["Thursday, the sixteenth of April", "no later than 16 April"]),
    (says_date, "2026-04-16", {}, YES, ["the 16th", "Apr 16"]),
    (says_date, "2026-04-16", {}, NO, ["17 April", "16 May 2026", "Friday, 16 April 2026"]),
    (says_date, "2026-04-16", {}, NO, ["16 April 2027", "2026-06-04"]),
    (says_date, "2026-04-16", {}, UNCERTAIN, ["16 April or 17 April", "16 or 17 April", "around 16 April"]),
    (says_date, "2026-03-12", {"today": "2026-03-09"}, YES, ["Thursday", "this Thursday, 12 March"]),
    (says_duration, 75, {}, YES, ["75", "1 hour 15 minutes", "an hour and a quarter", "1:15 h"]),
    (says_duration, 75, {}, YES, ["1h15", "1.25 hours", "75-minute"]),
    (says_duration, 75, {}, YES, ["Five people from 13:00 to 17:15, 75 minutes in all."]),
    (says_duration, 75, {}, YES, ["one hour and fifteen minutes"]),
    (says_duration, 75, {}, NO, ["1 hour", "15 minutes", "175", "75 hours", "not 75 minutes but 90"]),
    (says_duration, 75, {}, UNCERTAIN, ["75 or 90 minutes", "60 minutes and 75 minutes"]),
    (says_duration, 150, {}, YES, ["two and a half hours", "2:30 h", "150 min", "2 hours and 30 minutes"]),
    (says_name, "Olga Sokolova", {}, YES, ["Call Olga Sokolova.", "olga"]),
    (says_name, "Olga Sokolova", {}, YES, ["Ms SOKOLOVA", "Olga Sokolova, not Tessa."]),
    (says_name, "Olga Sokolova", {}, NO, ["Tessa Wood", "nobody"]),
    (says_name, "Olga Sokolova", {}, NO, ["Don't call Olga, call Tessa.", "Not Olga Sokolova but Tessa Wood."]),
    (says_name, "Olga Sokolova", {}, UNCERTAIN, ["Olga or Tessa", "Olga and Tessa"]),
    (says_name, "Olga Sokolova", {}, UNCERTAIN, ["maybe Olga", "Olga or somebody else"]),
    (says_name, "Olga Sokolova", {"beside": ["Gita Sharma"]}, YES, ["Gita has settled everything; call Olga."]),
    (says_name, "Olga Sokolova", {"beside": ["Gita Sharma"]}, UNCERTAIN, ["Olga or Gita"]),
    (says_name, "Sena Y\u0131ld\u0131r\u0131m", {}, YES, ["Sena Yildirim", "Y\u0131ld\u0131r\u0131m"]),
    (says_name, "Sena Y\u0131ld\u0131r\u0131m", {}, YES, ["SENA YILDIRIM"]),
    (says_name, "Marek Nowak", {}, UNCERTAIN, ["Marek"]),
    (says_name, "Marek Nowak", {}, NO, ["Marek Nowicki"]),
    (says_name, "AE16-3TN8", {"code": True}, YES, ["ae16-3tn8", "AE16 3TN8", "Its serial number is AE16-3TN8."]),
    (says_name, "AE16-3TN8", {"code": True}, NO, ["AE16-3TN88", "not AE16-3TN8", "AE16"]),
    (says_list, ["Olga Sokolova", "Tessa Wood"], {}, YES, ["Tessa and Olga", "Olga Sokolova, Tessa Wood"]),
    (says_list, ["Olga Sokolova", "Tessa Wood"], {}, NO, ["Olga", "not Tessa, but Olga"]),
    (says_list, ["Olga Sokolova", "Tessa Wood"], {}, UNCERTAIN, ["Tessa, Olga and Amina"]),
]


def told(helper, text, value, options):
    args = (text, value, PEOPLE) if helper in (says_name, says_list) else (text, value)
    try:
        return YES if helper(*args, **options) else NO
    except CannotTell:
        return UNCERTAIN


@pytest.mark.parametrize(("helper", "value", "options", "expected", "texts"), CASES)
def test_an_answer_is_judged_as_a_person_would(helper, value, options, expected, texts):
    assert {str(text): told(helper, text, value, options) for text in texts} == {str(text): expected for text in texts}


def test_notes_are_read_by_what_they_mention_and_deny():
    assert mentions("The rubber FOOT is missing", "foot")
    assert not mentions("football", "foot")
    assert mentions(["one", "it clicks"], "click*")
    assert denies("it doesn't click any more", "click*")
    assert denies("clicks no more", "click*")
    assert not denies("clicks fine", "click*")
    assert not denies("no word of it", "click*")


FORM = {
    "table": "number",
    "bill": "money",
    "people": "list",
    "at": "time",
    "on": "date",
    "takes": "duration",
    "how": "choice",
}
DATA = {
    "table": 10,
    "bill": 7330,
    "people": ["ann", "zoe"],
    "at": "17:40",
    "on": "2026-04-16",
    "takes": 75,
    "how": "cash",
}
GIVEN = {
    "table": 10,
    "bill": "73.30",
    "people": ["Zoë", "Ann"],
    "at": "17:40",
    "on": "16 April 2026",
    "takes": 75,
    "how": "Cash",
}
LINES = "- **Table**: ten\nBill: 73,30 €\npeople: Zoë, Ann\nAt: 5:40 pm\non: 2026-04-16\ntakes: 1 h 15 min\nHow: cash"


TALK = f"Shall I {{move}} it?\n\n{json.dumps({**GIVEN, 'bill': None})}\n\nNow with the bill: {json.dumps(GIVEN)}"
FENCED = f"Done.\n```json\n{json.dumps(GIVEN)}\n```\nBye."


@pytest.mark.parametrize("text", [json.dumps(GIVEN), FENCED, LINES, TALK, f"{FENCED}\n\n{FENCED}"])
def test_a_form_is_read_as_data(text):
    assert answer_fields(text, **FORM) == DATA


def test_what_is_no_form_or_no_value_is_none():
    assert answer_fields("They get table 10.", table="number") is None
    assert answer_fields(None, table="number") is None
    assert answer_fields("[" * 4_000 + "{" * 4_000 + "}", table="number") is None
    assert answer_fields('{"table": "10 or 12", "other": 1}', table="number", bill="money") == {
        "table": None,
        "bill": None,
    }
    assert answer_fields('{"on": "04/05/2026"}', on="date") == {"on": None}
    for twice in ('{"table": 10, "table": 12}', '{"table": 10}\n\n{"table": 12}', '{"table": 10}\n\n{"table": null}'):
        with pytest.raises(CannotTell):
            answer_fields(twice, table="number")
    with pytest.raises(ValueError, match="type is one of"):
        answer_fields("{}", table="furniture")


def test_hostile_texts_are_bounded():
    for text in ("1," * 4_999, "1 " * 5_000, "or 10 " * 1_600, "(" * MOST_CHARS, "twenty-" * 1_400, "\u0301" * 9_000):
        for helper in (says_number, says_money, says_duration):
            assert told(helper, text, 77, {}) != YES
        assert told(says_time, text, "23:59", {}) != YES
        assert told(says_date, text, "2026-12-31", {}) != YES
    assert told(says_number, "x" * (MOST_CHARS + 1) + " 10", 10, {}) == UNCERTAIN


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return default_sandbox()


@pytest.mark.parametrize(
    "body",
    [
        "return says_money(answer, 4025)",
        "return not says_money(answer, 4025)",
        "return any([says_money(answer, 4025), True])",
        "try:\n        return says_money(answer, 4025)\n    except Exception:\n        return True",
    ],
)
def test_a_check_that_cannot_tell_is_uncertain_whatever_it_makes_of_it(sandbox, body):
    check = f"def check(initial_state, final_state, answer):\n    {body}\n"
    verdict = sandbox.evaluate_checks([check], {}, {}, answer="224.75 or 40.25")[0]
    assert (verdict.passed, verdict.uncertain, verdict.raised) == (False, True, False)
    assert "choice" in verdict.error
    assert not sandbox.evaluate_checks([check], {}, {}, answer="")[0].uncertain


def test_a_check_may_have_a_function_of_the_same_name(sandbox):
    own = "def says_money(said):\n    return said == 'x'\n"
    own += "def check(final_state, answer):\n    return says_money(answer)\n"
    assert sandbox.evaluate_checks([own], {}, {}, answer="x")[0].passed
