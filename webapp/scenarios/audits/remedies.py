"""Remedies for each kind of fault that an audit finds, by the verifier that judges the task."""

from __future__ import annotations

from webapp.scenarios.models import TaskRevision

REMEDIES: dict[str, str] = {
    "noop_scores": "Ask for something that is not so at the start, or score goals alone: a check that is true at the "
    "start is a guard.",
    "no_goal": "Add a check that is false at the start and true after the reference.",
    "reference_fails": "Replay the reference and look at the first check that does not hold: either it asks for "
    "something else than the instruction, or the reference is wrong.",
    "mutant_passes": "Open the probe below: add a check for what this wrong way left out, or switch on the frame.",
    "mutant_lost": "Audit the task again; if it happens again, look at the log of the job.",
    "mutants_cut": "Audit the task again; a shorter reference or fewer checks make all of it fit.",
    "unguarded_change": "Switch on the frame of the reference: then any unrequested change earns nothing.",
    "reachable_wrong_end": "Look at where the calls below lead: add a check that is false there, or switch on the "
    "frame.",
    "detour_fails": "Look at what the detour leaves besides: if it is right, let the checks allow it; if not, look for "
    "it in the program.",
    "unneeded_call": "If the task asks for what the call does, add a check for it; if not, leave the call out of the "
    "reference.",
    "run_refused": "If what the run did is right, widen the frame; if not, add a check that detects it.",
    "nondeterministic": "Look for the clock, random numbers or the order of a set in the program and in the checks.",
    "judged_differently": "This check does not judge the state alone. Write it again from initial state, final state "
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
    "weak_check": "The source's own rule is kept. Give the task an answer form to compare the answer as data.",
    "answer_too_loose": "Give the task an answer form with the expected value, in place of a check that reads words.",
    "answer_too_narrow": "Compare a field of the answer form by its type, in place of a check that reads words.",
    "claim_passes": "Let a check of the state decide what can be seen there, and the judge only the rest.",
    "no_reference": "Give the task a reference: a call sequence that solves it.",
    "no_judge": "Name a model for the role of the judge, then audit again.",
    "no_checks": "Without checks nothing judges this task: import it with its checks.",
    "start_fails": "The program does not accept this initial state: try it under “Try tools on this scenario”.",
}
"""By kind of fault (`webapp.scenarios.audits.page.FAULTS`)."""


WITH_FRAME: dict[str, str] = {
    "mutant_passes": "Open the probe below: add a check for what this wrong way left out, or take out of the frame "
    "what it allows besides the reference.",
    "unguarded_change": "The frame of this task allows this change: pin the values of what it allows, take this out of "
    "it, or add a check that it breaks.",
    "reachable_wrong_end": "Look at where the calls below lead: the frame allows what they change. Pin its values, "
    "take that out of it, or add a check that is false there.",
    "detour_fails": "Look at what the detour leaves besides: if it is right, widen the frame by it.",
}
"""Of a task that has a frame, in the place of the above."""
_HIDDEN = (
    "Open the probe below: it ends in another state, but in places that are declared volatile. Take those away on the "
    "task's page if they matter."
)
WITH_GOLDEN_STATE: dict[str, str] = {
    "mutant_passes": _HIDDEN,
    "unguarded_change": _HIDDEN,
    "reachable_wrong_end": _HIDDEN,
    "noop_scores": "The golden state is the state at the start: ask for something that is not so there, or for an "
    "answer.",
    "reference_fails": "Make the golden state of the reference again on the task's page, or correct the reference.",
    "check_never_passes": "Not even the reference ends in the golden state: make it again on the task's page.",
    "detour_fails": "Look at what the detour leaves besides: if it is right, declare that place volatile.",
}
"""Of a task that a golden state judges, in the place of the first."""
WITH_RUBRIC: dict[str, str] = {
    "mutant_passes": "Open the probe below: add a criterion that this wrong way does not meet. Fields of the "
    "answer form are compared by the dimension tolerance.",
    "noop_scores": "Add a criterion that is not met at the start.",
    "reference_fails": "Read why the criteria below are not met: either one asks for something else than the "
    "instruction, or the reference is wrong.",
    "answer_ignored": "Give the task an answer form with the expected value, and a criterion that names the field.",
    "claim_passes": "Let each criterion name what the state must show, or ask for a field of the answer form.",
    "unguarded_change": "Add a criterion that nothing was changed but what the task asks for, by name.",
}
"""Of a task that a rubric judges, in the place of the first."""
_BY_TYPE = (
    "Let an assertion compare the field by its type: "
    '`is_expected(answer, "total", expected["total"], type="money")` with the field\'s own name and type.'
)
WITH_SCRIPT: dict[str, str] = {
    "answer_too_loose": _BY_TYPE,
    "answer_too_narrow": _BY_TYPE,
    "answer_ignored": _BY_TYPE,
}
"""Of a task that a verification script judges, in the place of the first."""


def find_remedy(kind: str, revision: TaskRevision) -> str:
    """Return what to do about a kind of fault of a revision; empty if the kind is unknown."""
    if revision.verifier_kind == "golden" and kind in WITH_GOLDEN_STATE:
        return WITH_GOLDEN_STATE[kind]
    if revision.verifier_kind == "rubric" and kind in WITH_RUBRIC:
        return WITH_RUBRIC[kind]
    if revision.verifier_kind == "script" and kind in WITH_SCRIPT:
        return WITH_SCRIPT[kind]
    if revision.frame is not None and kind in WITH_FRAME:
        return WITH_FRAME[kind]
    return REMEDIES.get(kind, "")
