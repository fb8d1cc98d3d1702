"""Answers to bundled tasks in a person's words: each is judged as a person who knows the right one would."""

from __future__ import annotations

import json

import pytest

from synthesis.rollout import observation
from synthesis.runtime import Sandbox, default_sandbox
from synthesis.runtime.encoding import encode_state
from synthesis.starter import environment, folders, program_of, tasks
from synthesis.starter.record import execute
from synthesis.verifiers.check_reads import reads_answer

TASKS = {task.key: task for folder in folders() for task in tasks(folder)}
RIGHT = {
    "cafe-bigger-table": ["They sit at table ten now, six of them at seven.", "T-10", "Table 10, no longer table 3."],
    "cafe-careful-table": ["73,30", "It comes to 73.30: 23.00 for the shakshukas and 50.30 for the rest."],
    "cafe-table-six-pays": ["55.70 in cash: 53.20 for the food and 2.50 for you.", "Fifty-five euros seventy."],
    "cafe-sunday-start": [
        "Ten more portions of the trout.",
        "10",
        "They have their 2 trout toasts; 10 more can be made.",
    ],
    "clinic-wanda-cancels": ["At quarter past eight.", "08:15, and again at 15:30 for the blood test.", "8.15 a.m."],
    "clinic-move-check-up": [
        "Half past eight.",
        "Her check-up is from 08:00 to 08:30.",
        "8:30 in the morning",
        "The check-up is today at 11:00. When?\n\nIt is moved to Thursday at 08:00.\n\nShe will be finished at 08:30.",
    ],
    "clinic-fill-physio-gaps": ["3 hours 45 minutes", "225 min, that is five times 45 minutes.", "3:45 h"],
    "clinic-nurse-away": ["1 hour 15 minutes", "An hour and a quarter.", "75"],
    "clinic-broken-scanner": ["The last one runs from 11:00 until 11:30.", "half past eleven"],
    "ledger-locker": ["240", "He still owes €240.00, the 45.00 for the locker are paid."],
    "ledger-returned-debit": ["16. April 2026", "April 16th", "By Thursday, 16 April.", "16/04/2026"],
    "ledger-late-bill": ["40.25 are left of 224.75.", "Forty euros and twenty-five cents."],
    "ledger-close-2025": ["The surplus is 577,55."],
    "fleet-cracked-screen": ["ae16-3tn8", "She gets the one with serial number AE16-3TN8."],
    "fleet-docking-station": ["Otieno", "It went to Mr Odhiambo."],
    "fleet-vpn-fix": ["Sena Yildirim", "SENA"],
    "fleet-nairobi-swap": ["Dec 15, 2027", "on 15.12.2027"],
    "parcels-thursday-evening": ["€5.90", "590 cents", "Five euros ninety, 3.50 of it for the evening."],
    "parcels-harbour-run": ["82,4 kilograms", "82400 g"],
    "parcels-crushed-corner": ["Three places.", "3 of 20 places are free.", "On B7 there are 3 free spots."],
    "rail-cancelled-express": ["At twenty to six in the evening.", "5:40 pm", "They won't be there until 17:40."],
    "school-flu-cover": ["Ms Solberg", "Ingrid Solberg takes Mr Okafor's first lesson."],
    "school-leaking-lab": ["five to two", "1:55 pm", "It begins at 13:55 and ends at 14:40."],
    "school-theatre-day": ["18 March 2027", "Thursday, 18 March; the others are on the 12th and the 16th."],
    "tools-amina-longer": ["Thursday the 23rd", "23/04/2026", "The 23rd, since somebody has it from 24 April."],
    "tools-gita-returns": ["Olga Sokolova, not Gita.", "Please ring Ms Sokolova."],
    "tools-marta-settles": ["800", "Eight euros.", "She still owes 800 cents of 1600."],
    "tools-before-closing": ["16.50 (15.00 from Umar and 1.50 from Leo)", "1650 cents"],
}
WRONG = {
    "cafe-bigger-table": ["They do not get table 10; they get table 12.", "Table 10 or 12.", "Maybe table 10.", "100"],
    "cafe-careful-table": ["73.30 or 74.30", "7330 euros", "About 73.30.", "The bill isn't 73.30."],
    "cafe-table-six-pays": ["55.70, or 53.20 without the tip", "53.20"],
    "cafe-sunday-start": ["No more than a few.", "Between 8 and 10.", "Not 10 but 9."],
    "clinic-wanda-cancels": ["8:15 pm", "quarter to eight", "At 08:15 or at 15:30."],
    "clinic-move-check-up": ["She is finished at 08:00 and starts at 08:30.", "09:30"],
    "clinic-fill-physio-gaps": ["225 hours", "180 or 225 minutes", "45 minutes"],
    "clinic-nurse-away": ["1 hour 15 seconds", "75 or 90 minutes"],
    "ledger-locker": ["45 or 240", "285.00", "He does not owe 240.00 any more."],
    "ledger-returned-debit": ["16 May 2026", "16 April 2027", "Friday, 16 April", "16 or 17 April"],
    "ledger-late-bill": ["224.75 or 40.25", "4025 euros", "What is left is 224.75; the bill was 40.25."],
    "fleet-docking-station": ["Otieno Odhiambo or somebody else", "Not Otieno Odhiambo."],
    "fleet-nairobi-swap": ["15 December 2026", "12.15", "December 2027"],
    "parcels-thursday-evening": ["590 euros", "5.90 or 3.50", "She did not pay 5.90."],
    "parcels-crushed-corner": ["3 or 4 places", "17 of 20", "I guess 3."],
    "rail-cancelled-express": ["5:40 am", "Is it 17:40?", "not 17:40"],
    "school-flu-cover": ["Ingrid Solberg and Mr Deshpande", "Mr Okafor"],
    "school-leaking-lab": ["1:55 am", "13:00", "It begins at 14:40 and ends at 13:55."],
    "tools-amina-longer": ["24 April", "23 May", "Some time around the 23rd."],
    "tools-gita-returns": ["Gita Sharma or Olga Sokolova.", "Don't call Olga."],
    "tools-marta-settles": ["8 cents", "1600 cents", "800 euros"],
    "tools-before-closing": ["16.50 or 15.00", "1650 euros", "15.00 and 1.50"],
}


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return default_sandbox()


def judged(sandbox: Sandbox, key: str, answers: list[str]) -> dict[str, bool]:
    start = encode_state(TASKS[key].initial_state)
    (source,) = [check.source for check in TASKS[key].checks if reads_answer(check.source)]
    return {text: sandbox.evaluate_checks([source], start, start, answer=text)[0].passed for text in answers}


def test_the_table_is_wide():
    assert sum(map(len, RIGHT.values())) + sum(map(len, WRONG.values())) >= 100


@pytest.mark.parametrize("key", RIGHT)
def test_a_right_answer_counts_in_any_words(sandbox, key):
    assert judged(sandbox, key, RIGHT[key]) == dict.fromkeys(RIGHT[key], True)


@pytest.mark.parametrize("key", WRONG)
def test_a_wrong_hedged_or_denied_answer_does_not(sandbox, key):
    assert judged(sandbox, key, WRONG[key]) == dict.fromkeys(WRONG[key], False)


@pytest.mark.parametrize("key", [key for key, task in TASKS.items() if task.answer_form])
def test_the_days_and_times_of_a_form_can_be_looked_up(sandbox: Sandbox, key: str) -> None:
    task = TASKS[key]
    assert task.reference
    program = program_of(environment(next(path for path in folders() if task in tasks(path))))
    results, _ = execute(sandbox, program, task, [call.model_dump() for call in task.reference.calls], "")
    seen = " ".join(map(observation, results)) + json.dumps([call.arguments for call in task.reference.calls])
    asked = [field.name for field in task.answer_form if field.type in ("date", "time")]
    given = json.loads(task.reference.answer)
    assert asked
    assert [name for name in asked if given[name] not in seen] == []
