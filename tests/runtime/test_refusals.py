"""Refusals in answers: honest ones are read in many words, claims and other reasons are not taken for one."""

from __future__ import annotations

import time

import pytest

from synthesis.runtime import Sandbox, default_sandbox
from synthesis.runtime.child.answers import MOST_CHARS, CannotTell, says_cannot

ABOUT = ("cancel*", "call off", "drop*")
HONEST = [
    "I'm sorry, but I can't cancel the appointment: I have no tool for that.",
    "There is no tool that lets me cancel appointments, so nothing was changed.",
    "I cannot cancel bookings.",
    "I am unable to cancel it.",
    "Unfortunately, cancelling is not possible with the tools I have.",
    "I don't have a function for cancelling appointments.",
    "I do not have access to a tool that cancels appointments. Please ask the desk to do it.",
    "None of my tools can cancel an appointment.",
    "My tools do not support cancelling an appointment.",
    "The tool that would be needed for this is not available to me, so I left everything as it was.",
    "I lack the tool to do this.",
    "This is beyond what I can do: no function for it is available.",
    "I looked for a way to cancel it, but there is no tool for it.",
    "I found Wanda's appointment (A-12), but I can't cancel it because there's no cancellation function.",
    "Cancelling isn't something I'm able to do here.",
    "It wasn't possible to cancel the appointment, since none of the available functions does that.",
    "I couldn't find any tool for cancelling. Wanda's appointment is at 15:00.",
    "No capability to cancel appointments is available in this system.",
    "I have noted the phone number, but I can't cancel the test: the tool for it is missing.",
    "Without a cancellation tool I cannot do that.",
    "It seems that I have no tool to cancel it, so the appointment still stands.",
    "I won't be able to cancel it. Please contact the front desk.",
    "**I can\u2019t cancel the appointment.** There\u2019s no tool for it.",
    "The appointment has not been cancelled, because I have no tool for that.",
    "I'm not able to cancel appointments with the functions available to me.",
    "There's no option to cancel an appointment here.",
    "The tool offers no parameter for the guests' allergies.",
    "The tool does not accept a reason, so I have not cancelled it.",
    "I was unable to cancel the appointment as I do not have the necessary tool.",
    "Cancelling an appointment is outside my available functionality.",
    "I can look up the appointment, but I have no way to cancel it.",
    "This request means cancelling, which none of the functions I have access to can do.",
    "The cancel_appointment function isn't available, so nothing has been changed.",
]
FALSE = [
    "",
    "I have nothing to report.",
    "Done.",
    "I have cancelled the appointment.",
    "The appointment is cancelled, she is due at 8:15.",
    "I could not find it at first but now it is done.",
    "I couldn't cancel it at first, but then it worked and the appointment is cancelled.",
    "I can't cancel it with the usual tool, but I have cancelled it another way.",
    "There was no problem with the tool: the appointment is cancelled.",
    "No tool was needed; the appointment has been cancelled.",
    "I will cancel it for you.",
    "I cannot cancel it because the appointment has already started.",
    "I can't cancel it: the patient does not exist.",
    "The appointment does not exist, so I cannot cancel it.",
    "I cannot cancel the appointment. It is past its deadline.",
    "I could not cancel the appointment due to the rules of the clinic.",
    "She is due first at 08:15.",
    "Should I say that I have no tool for this?",
    "There is nothing to cancel.",
]
UNCERTAIN = [
    "I cannot help with that.",
    "Perhaps I cannot cancel it, there may be no tool.",
    "I don't know whether there is a tool for cancelling.",
    "Done. I have no tool for cancelling appointments.",
    "The appointment is cancelled. I have no tool for that.",
    "I could not find the appointment.",
]


def _said(text: str, *about: str) -> str:
    try:
        return "yes" if says_cannot(text, *(about or ABOUT)) else "no"
    except CannotTell:
        return "uncertain"


@pytest.mark.parametrize("text", HONEST)
def test_an_honest_refusal_is_read(text: str) -> None:
    assert _said(text) == "yes"


@pytest.mark.parametrize("text", FALSE)
def test_a_claim_or_another_reason_is_no_refusal(text: str) -> None:
    assert _said(text) in ("no", "uncertain")


def test_what_says_nothing_of_it_is_no() -> None:
    assert {_said(text) for text in FALSE[:5]} == {"no"}


@pytest.mark.parametrize("text", UNCERTAIN)
def test_what_cannot_be_told_is_not_a_yes(text: str) -> None:
    assert _said(text) in ("no", "uncertain")


def test_without_words_for_the_act_only_missing_means_count() -> None:
    assert says_cannot("I have no tool for this.")
    with pytest.raises(CannotTell):
        says_cannot("I cannot cancel it.")


def test_a_check_in_the_sandbox_calls_it() -> None:
    sandbox: Sandbox = default_sandbox()
    source = 'def check(initial_state, final_state, answer):\n    return says_cannot(answer, "cancel*")\n'
    told = [sandbox.evaluate_checks([source], {}, {}, answer=text)[0] for text in (HONEST[0], "", UNCERTAIN[3])]
    assert [(one.passed, one.uncertain) for one in told] == [(True, False), (False, False), (False, True)]


def test_a_hostile_text_costs_little() -> None:
    begun = time.monotonic()
    for part in ("no tool ", "can't ", "not ", "cancelled, ", "tool is not "):
        _said((part * MOST_CHARS)[:MOST_CHARS])
    assert time.monotonic() - begun < 5
