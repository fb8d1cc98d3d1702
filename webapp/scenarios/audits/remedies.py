"""What a person can do about each kind of fault that an audit finds."""

from __future__ import annotations

REMEDIES: dict[str, str] = {
    "noop_scores": "Ask for something that is not so at the start, or score goals alone: a check that is true at the "
    "start is a guard.",
    "no_goal": "Add a check that is false at the start and true after the reference.",
    "reference_fails": "Replay the reference and look at the first check that does not hold: either it asks for "
    "something else than the instruction, or the reference is wrong.",
    "mutant_passes": "Open the probe below: add a check for what this wrong way left out, or switch on the frame.",
    "mutant_lost": "Audit the task again; if it happens again, look at the log of the job.",
    "mutants_cut": "Audit the task again; a shorter reference or fewer checks make all of it fit.",
    "unguarded_change": "Switch on the frame of the reference: then any change that nobody asked for earns nothing.",
    "unneeded_call": "If the task asks for what the call does, add a check for it; if not, leave the call out of the "
    "reference.",
    "run_refused": "If what the run did is right, widen the frame; if not, add a check that tells it.",
    "nondeterministic": "Look for the clock, random numbers or the order of a set in the program and in the checks.",
    "judged_differently": "This check does not judge the state alone. Write it anew from initial state, final state "
    "and answer.",
    "depends_on_clock": "Compare with dates of the state, not with the clock.",
    "depends_on_seed": "Look for random numbers in the program or in a check.",
    "volatile_undeclared": "If another value is right there, declare the place volatile on the task's page; if not, "
    "look for what differs in the program.",
    "volatile_unapproved": "Take the place away on the task's page, or declare it in your own name with a reason.",
    "check_raises": "Read the check's error below: it looks for something that the state does not have.",
    "check_raises_later": "The check expects what a wrong way did not make: have it answer false instead.",
    "check_never_passes": "Not even the reference satisfies it: correct it, or leave it out.",
    "check_never_fails": "It is true whatever an agent does: leave it out, or have it look at what was asked for.",
    "checks_contradict": "No state satisfies both: leave one of them out.",
    "answer_ignored": "The instruction asks for an answer: add a check that reads it.",
    "weak_check": "The source's own rule is kept. Give the task an answer form to compare what is told as data.",
    "answer_too_loose": "Give the task an answer form with the expected value, in place of a check that reads words.",
    "answer_too_narrow": "Compare a field of the answer form by its type, in place of a check that reads words.",
    "claim_passes": "Let a check of the state decide what can be seen there, and the judge only the rest.",
    "no_reference": "Give the task a reference: a call sequence that solves it.",
    "no_judge": "Name a model for the role of the judge, then audit again.",
    "no_checks": "Without checks nothing judges this task: import it with its checks.",
    "start_fails": "The program does not accept this initial state: try it under “Try tools on this scenario”.",
}
"""By kind of fault (`webapp.scenarios.audits.page.FAULTS`)."""


def remedy_of(kind: str) -> str:
    """What to do about a kind of fault; empty for one that is not known."""
    return REMEDIES.get(kind, "")
