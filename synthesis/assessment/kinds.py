"""Kinds of findings: severity, meaning and remedy. Pages show these sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from synthesis.contracts import Finding, Severity


@dataclass(frozen=True)
class FindingKind:
    severity: Severity
    title: str
    meaning: str


KINDS: dict[str, FindingKind] = {
    "cut_identifier": FindingKind(
        "warning",
        "Identifier cut short",
        "A name in the state schema lost letters at an end; write it out, or agents read a field that does not exist.",
    ),
    "no_method": FindingKind(
        "warning",
        "Tool without a method",
        "The manifest offers a tool that the program does not have, so every call fails; remove it or write it.",
    ),
    "method_without_tool": FindingKind(
        "info",
        "Method that is no tool",
        "A public method is not in the manifest, so agents cannot call it; list it or make it private.",
    ),
    "no_tools": FindingKind(
        "warning", "No tools", "Nothing can be called in this environment; add tools before making tasks for it."
    ),
    "uses_clock": FindingKind(
        "info",
        "Reads the clock",
        "Results depend on the time of the call; the sandbox sets the clock, but recorded runs may differ.",
    ),
    "uses_uuid": FindingKind(
        "info",
        "Makes random ids",
        "New records get random ids; the sandbox seeds them, but later calls of a recorded run may name others.",
    ),
    "uses_random": FindingKind(
        "info",
        "Uses random numbers",
        "Results depend on chance; the sandbox seeds it, but recorded runs may differ.",
    ),
    "state_not_plain": FindingKind(
        "info",
        "State that JSON cannot hold",
        "The state has sets, tuples or non-text keys; it is kept losslessly, but checks written for JSON may fail.",
    ),
    "result_aliases_state": FindingKind(
        "info",
        "Results share the live state",
        "A tool hands out its own records instead of copies; the sandbox copies them, other runtimes may not.",
    ),
    "wrong_type_raises": FindingKind(
        "warning",
        "Wrong type raises",
        "An argument of a wrong type makes the tool raise instead of answering with an error; validate it first.",
    ),
    "list_for_text_raises": FindingKind(
        "info",
        "List for a text raises",
        "A list where text belongs makes tools raise (a list is no key of a dict); check the type before the look-up.",
    ),
    "plausible_call_raises": FindingKind(
        "warning",
        "Plausible call raises",
        "A call with arguments of the right types raises; read the tool, it may not work at all.",
    ),
    "program_fails": FindingKind(
        "fatal",
        "Program does not start",
        "The program cannot be constructed, so nothing can run in this environment; the message says why.",
    ),
    "episode_lost": FindingKind(
        "warning",
        "Ends its process",
        "A call ran out of time or memory, or ended its process; bound what the tool does.",
    ),
    "probe_incomplete": FindingKind(
        "info", "Probe incomplete", "The bound on calls or time was reached; some tools were not tried."
    ),
    "no_checks": FindingKind(
        "warning", "Task without checks", "Nothing judges this task, so it has no reward; write checks for it."
    ),
    "check_true_at_start": FindingKind(
        "info",
        "Check true at the start",
        "It holds before the agent acts: by proportion, doing nothing is paid for it; by goals, it is a guard; "
        "an assertion of a script has to hold at the end as well.",
    ),
    "all_true_at_start": FindingKind(
        "warning",
        "All checks true at the start",
        "Doing nothing gives the full reward; the task teaches nothing until a check is false at the start.",
    ),
    "high_do_nothing": FindingKind(
        "warning",
        "Doing nothing scores high",
        "An agent that does nothing gets at least half of the reward; add goals, or score goals only.",
    ),
    "check_raises_at_start": FindingKind(
        "warning",
        "Check raises at the start",
        "The check fails with an exception on the initial state and counts as not passed; make it answer false.",
    ),
    "check_not_boolean": FindingKind(
        "warning",
        "Check does not answer true or false",
        "The check returns something else, which counts as not passed; return a boolean.",
    ),
    "checks_not_run": FindingKind(
        "warning",
        "Checks not run",
        "Checks before these ran out of time, so the task has no score; bound what they do, and import it again.",
    ),
    "volatile_place": FindingKind(
        "warning",
        "Place that differs from run to run",
        "Right runs leave another value there than the golden state holds; declare the place volatile, or they earn 0.",
    ),
    "golden_not_made": FindingKind(
        "warning",
        "Golden state not made anew",
        "State or reference changed, and the golden state is that of before; mend the reference and make it anew.",
    ),
    "check_reads_initial_state": FindingKind(
        "info",
        "Check reads a global initial state",
        "The check needs a global `initial_state`; it is provided here, other runtimes may not have it.",
    ),
    "check_outside_language": FindingKind(
        "warning",
        "Check is outside of its language",
        "It uses something that can differ between runs; it never passes until that part is rewritten.",
    ),
    "check_invalid": FindingKind(
        "warning",
        "Check is not Python",
        "The check has a syntax error or defines no `check_func`; it never passes until it is rewritten.",
    ),
    "unknown_state_key": FindingKind(
        "warning",
        "Initial state has an unknown key",
        "The program never mentions this key of the initial state; it may be misspelt, and tools cannot see it.",
    ),
    "start_fails": FindingKind(
        "fatal",
        "Does not start from this state",
        "The program cannot be constructed with this initial state; the message says why.",
    ),
    "syntax": FindingKind("fatal", "Not Python", "The program cannot be read, so nothing can run; correct the source."),
    "no_class": FindingKind(
        "fatal", "No class", "The class that should be the environment is not there; name the right one."
    ),
    "several_classes": FindingKind(
        "warning", "Several classes", "More than one class could be the environment; name the right one."
    ),
    "import": FindingKind(
        "warning",
        "Module not in the sandbox",
        "The program imports what the sandbox does not have; use the standard modules that it offers.",
    ),
    "private_tool": FindingKind(
        "warning", "Private tool", "A tool's name starts with an underscore; give it a public name."
    ),
    "undocumented": FindingKind(
        "warning", "Undocumented tool", "The method has no docstring; say what it does and returns."
    ),
    "async_tool": FindingKind(
        "warning", "Asynchronous tool", "Calls of an asynchronous method give no result; make it an ordinary one."
    ),
    "positional_only": FindingKind(
        "warning",
        "Parameter without a usable name",
        "Agents pass arguments by name, which this signature does not allow; rewrite it.",
    ),
    "schema_missing": FindingKind(
        "info", "No schema", "The manifest has no parameters for this tool; they were derived from its signature."
    ),
    "schema_malformed": FindingKind(
        "warning", "Schema malformed", "The imported schema is none; the one derived from the signature is used."
    ),
    "unknown_parameter": FindingKind(
        "warning",
        "Parameter the method does not take",
        "The imported schema lists a parameter that a call would fail on; remove it, or add it to the method.",
    ),
    "missing_parameter": FindingKind(
        "warning",
        "Parameter missing in the schema",
        "The method takes a parameter that the imported schema hides from agents; list it.",
    ),
    "required_with_default": FindingKind(
        "warning",
        "Required although it has a default",
        "The imported schema requires what the signature does not; agents must invent a value. Make it optional.",
    ),
    "required_missing": FindingKind(
        "warning",
        "Not required although it has no default",
        "A call that follows the imported schema can fail; require the parameter, or give it a default.",
    ),
    "type_differs": FindingKind(
        "warning",
        "Type differs",
        "The imported schema and the signature name different types; the signature is used. Correct one of them.",
    ),
}
"""The kinds from `syntax` on are what the runtime's static check reports."""


TASK_KINDS = (
    "all_true_at_start",
    "high_do_nothing",
    "check_true_at_start",
    "check_raises_at_start",
    "check_outside_language",
    "check_invalid",
    "check_not_boolean",
    "check_reads_initial_state",
    "no_checks",
    "unknown_state_key",
    "start_fails",
    "checks_not_run",
    "volatile_place",
    "golden_not_made",
)
"""Kinds of findings on tasks, in the order in which lists offer them; the others are of environments."""


def get_finding_kind(name: str) -> FindingKind:
    """Return the entry of a kind; a kind without a description is shown by its name."""
    return KINDS.get(name) or FindingKind("warning", name.replace("_", " ").capitalize(), "See the message.")


def make_finding(kind: str, place: str, message: str, **data: Any) -> Finding:
    """Return a finding with the severity of its kind."""
    return Finding(
        kind=kind, severity=get_finding_kind(kind).severity, place=place[:300], message=message[:2000], data=data
    )
