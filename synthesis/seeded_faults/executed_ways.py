"""Executed ways to do a sound task or not to do it, which distinguish a faulty verifier from the sound one.

They are drawn by lot, independently of the probes of an audit: calls omitted, exchanged, made with other arguments,
made additionally, made and undone, and answers with other content or with the same in another spelling. The sound
verifier decides which of them are right.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from threading import Lock
from typing import Any, Literal

from synthesis.contracts import (
    SOLVED_AT,
    AnswerField,
    CheckRecord,
    Reference,
    ReferenceCall,
    State,
    Verdict,
    is_refusal,
)
from synthesis.errors import InputError, ProgramEnded
from synthesis.formats.answer_form import read_submission, serialize_answer
from synthesis.runtime import Sandbox, hash_state
from synthesis.runtime.encoding import share_unchanged
from synthesis.scripted.programs.tester import StateValues, draw_value
from synthesis.seeded_faults.sound_tasks import JudgedTask
from synthesis.verifiers.check_table import End, build_verdict_table
from synthesis.verifiers.checks import compute_reward, derive_mark
from synthesis.verifiers.frame import find_outside_changes
from synthesis.verifiers.plausible_arguments import list_allowed_values, propose_arguments, read_known_values
from synthesis.verifiers.state_changes import find_state_changes

ALTERED, BESIDE, UNDONE, EXCHANGED = 24, 24, 6, 6
"""So many ways of a kind are made of one task."""
UNDO_A_TOOL = 6
MOST_TRIED = 200
NO_SUCH = "X-000"
Effect = Literal["paid", "refused"]
"""A wrong way is paid in full, or a right way is not."""
Calls = tuple[ReferenceCall, ...]


@dataclass(frozen=True)
class ExecutedWay:
    """Call sequence with an answer, and its end state."""

    about: str
    reference: Reference
    state: State
    digest: str


@dataclass(frozen=True)
class ShownFault:
    """Way on which a verifier and the sound one disagree."""

    effect: Effect
    way: ExecutedWay


class TaskWays:
    """Ways of one sound task with the rewards of its verifier."""

    def __init__(self, sandbox: Sandbox, task: JudgedTask, seed: int) -> None:
        self.task = task
        self._sandbox, self._luck = sandbox, random.Random(f"{seed} {task.name}")
        self._verdicts: dict[tuple[str, str, str], Verdict] = {}
        self._outside: dict[str, bool] = {}
        self._making = Lock()
        self._known: list[tuple[ExecutedWay, bool]] = []

    @cached_property
    def start(self) -> ExecutedWay:
        """The start state of the task."""
        start = self.execute(Reference(), "nothing is done")
        assert start is not None
        return start

    @cached_property
    def own(self) -> ExecutedWay:
        """The end of the reference."""
        reference_way = self.execute(self.task.reference, "the reference")
        assert reference_way is not None
        return reference_way

    def list_known_ways(self) -> list[tuple[ExecutedWay, bool]]:
        """Return each way with whether the sound verifier gives it the full reward; made on first use."""
        with self._making:
            if not self._known:
                ways = self._drop_duplicates([self.own, self.start, *self._other_calls(), *self._other_answers()])
                self._known = [(way, self.is_paid(self.task, way)) for way in self._judge_ways(self.task, ways)]
        return self._known

    def start_verdicts(self) -> list[Verdict]:
        """Return the verdicts of the sound verifier's checks on the start, the own ones first."""
        self._judge_ways(self.task, ())
        return self._get_verdicts(self.task.every_check, self.start, "")

    def execute(self, reference: Reference, about: str) -> ExecutedWay | None:
        """Return a way with its end; None if its episode is lost."""
        try:
            with self._sandbox.reset(self.task.program, self.task.initial) as episode:
                for call in reference.calls:
                    episode.call(call.tool, dict(call.arguments))
                state = episode.state()
        except ProgramEnded:
            return None
        digest = hash_state(state)
        if reference.calls:
            state = share_unchanged(self.start.state, state)
        return ExecutedWay(about, reference, state, digest)

    def find_difference(self, faulty: JudgedTask, more: Iterable[tuple[str, Reference]] = ()) -> ShownFault | None:
        """Return the first way on which a faulty verifier and the sound one disagree; try `more` first, then all."""
        extra = self._drop_duplicates(way for about, made in more if (way := self.execute(made, about)) is not None)
        ways = [
            *((way, self.is_paid(self.task, way)) for way in self._judge_ways(self.task, extra)),
            *self.list_known_ways(),
        ]
        self._judge_ways(faulty, [way for way, _ in ways])
        for way, right in ways:
            if self.is_paid(faulty, way) != right:
                return ShownFault("refused" if right else "paid", way)
        return None

    def is_paid(self, task: JudgedTask, way: ExecutedWay) -> bool:
        """Return whether a verifier gives the full reward for a way that was already evaluated."""
        if self._is_outside(task, way):
            return False
        marks = [derive_mark(verdict) for verdict in self._get_verdicts(task.every_check, self.start, "")]
        try:
            reward = compute_reward(self._get_verdicts(task.every_check, way, None), task.rule, marks)
        except InputError:
            return False
        return reward.reward >= SOLVED_AT

    def _is_outside(self, task: JudgedTask, way: ExecutedWay) -> bool:
        if task.frame is not self.task.frame:
            return bool(find_outside_changes(task.frame, self.start.state, way.state))
        if way.digest not in self._outside:
            self._outside[way.digest] = bool(find_outside_changes(task.frame, self.start.state, way.state))
        return self._outside[way.digest]

    def _get_verdicts(self, checks: Sequence[CheckRecord], way: ExecutedWay, answer: str | None) -> list[Verdict]:
        text = way.reference.answer if answer is None else answer
        return [self._verdicts[check.source, way.digest, text] for check in checks]

    def _judge_ways(self, task: JudgedTask, ways: Sequence[ExecutedWay]) -> Sequence[ExecutedWay]:
        """Evaluate each check of a verifier on the ways, and return them."""
        ends: list[tuple[str, End]] = [(self.start.digest, (self.start.state, ""))]
        ends += [(way.digest, (way.state, way.reference.answer)) for way in ways]
        for check in task.every_check:
            new = [(digest, end) for digest, end in ends if (check.source, digest, end[1] or "") not in self._verdicts]
            if new:
                columns = build_verdict_table(self._sandbox, [check.source], self.start.state, [end for _, end in new])
                for (digest, end), (verdict,) in zip(new, columns, strict=True):
                    self._verdicts[check.source, digest, end[1] or ""] = verdict
        return ways

    def _drop_duplicates(self, ways: Iterable[ExecutedWay]) -> list[ExecutedWay]:
        distinct: dict[tuple[str, str], ExecutedWay] = {}
        for way in ways:
            distinct.setdefault((way.digest, way.reference.answer), way)
        return list(distinct.values())

    def _other_calls(self) -> Iterator[ExecutedWay]:
        reference = self.task.reference
        sequences = [(f"another right way ({at + 1})", way.calls) for at, way in enumerate(self.task.ways)]
        sequences += [
            *_iter_shorter(reference.calls),
            *_iter_exchanged(reference.calls),
            *self._alter_arguments(),
            *self._add_lookups(),
        ]
        for about, calls in sequences:
            way = self.execute(reference.model_copy(update={"calls": calls}), about)
            if way is not None:
                yield way
        yield from self._add_calls()

    def _alter_arguments(self) -> list[tuple[str, Calls]]:
        """Return variants in which one argument of a call that changes the state is another value of the state."""
        state_values, calls = StateValues(self.own.state), self.task.reference.calls
        tools = {tool.name: tool for tool in self.task.program.tools if tool.kind == "change"}
        places = [(step, name) for step, call in enumerate(calls) if call.tool in tools for name in call.arguments]
        variants = []
        for _ in range(ALTERED) if places else ():
            step, name = self._luck.choice(places)
            call = calls[step]
            rule = (tools[call.tool].parameters.get("properties") or {}).get(name) or {}
            other = self._draw(name, rule, state_values)
            changed = ReferenceCall(tool=call.tool, arguments={**call.arguments, name: other})
            about = f"call {step + 1} ({call.tool}) with {name}={other!r:.80}"
            variants.append((about, (*calls[:step], changed, *calls[step + 1 :])))
        return variants

    def _add_lookups(self) -> list[tuple[str, Calls]]:
        """Return variants that look up everything before and after, or make a call that cannot succeed first."""
        calls, tools = self.task.reference.calls, self.task.program.tools
        looks = tuple(
            ReferenceCall(tool=tool.name)
            for tool in tools
            if tool.kind == "query" and not tool.parameters.get("required")
        )
        acts = [call for call in calls if any(tool.name == call.tool and tool.kind == "change" for tool in tools)]
        variants = [("everything is looked at before and after", (*looks, *calls, *looks))]
        for call in acts[:2]:
            wrong = {name: NO_SUCH if isinstance(given, str) else given for name, given in call.arguments.items()}
            variants.append(
                (f"{call.tool} is tried in vain first", (ReferenceCall(tool=call.tool, arguments=wrong), *calls))
            )
        return variants

    def _add_calls(self) -> Iterator[ExecutedWay]:
        """Yield ways with an additional call, drawn by lot, before or after all others; some of them undone."""
        tools = [tool for tool in self.task.program.tools if tool.kind == "change"]
        state_values, calls = StateValues(self.own.state), self.task.reference.calls
        yielded = undone = tries = 0
        while tools and yielded < BESIDE and tries < MOST_TRIED:
            tries += 1
            tool = self._luck.choice(tools)
            rules = tool.parameters
            names = [
                name
                for name in rules.get("properties") or {}
                if name in (rules.get("required") or ()) or self._luck.random() < 0.5
            ]
            arguments = {name: self._draw(name, rules["properties"][name], state_values) for name in names}
            call = ReferenceCall(tool=tool.name, arguments=arguments)
            order = (call, *calls) if self._luck.random() < 0.5 else (*calls, call)
            way = self._execute_accepted(order, call)
            if way is None:
                continue
            yielded += 1
            yield way
            if undone < UNDONE:
                for back in self._undo_call(order, call):
                    undone += 1
                    yield back

    def _execute_accepted(self, calls: Calls, call: ReferenceCall) -> ExecutedWay | None:
        with self._sandbox.reset(self.task.program, self.task.initial) as episode:
            try:
                accepted = False
                for made_call in calls:
                    result = episode.call(made_call.tool, dict(made_call.arguments))
                    if made_call is call:
                        accepted = bool(result.patch) and not is_refusal(result.ok, result.result)
                        if not accepted:
                            return None
            except ProgramEnded:
                return None
        return self.execute(self.task.reference.model_copy(update={"calls": calls}), f"besides, {_format_call(call)}")

    def _draw(self, name: str, rule: dict[str, Any], seen: StateValues) -> Any:
        """Return a value for an argument, by lot."""
        choices = list_allowed_values(rule)
        return self._luck.choice(choices) if choices else draw_value(name, rule, seen, self._luck)

    def _undo_call(self, calls: Calls, call: ReferenceCall) -> Iterator[ExecutedWay]:
        """Yield the same with a following call that restores the state before, if one is found."""
        before = self.execute(Reference(calls=calls[: calls.index(call)]), "")
        after = self.execute(Reference(calls=calls[: calls.index(call) + 1]), "")
        if before is None or after is None:
            return
        related_texts = {text for text in call.arguments.values() if isinstance(text, str)}
        related_texts |= {
            key for change in find_state_changes(before.state, after.state) for key, _ in change.items if key
        }
        state_values, call_reference = read_known_values(after.state, Reference()), Reference(calls=(call,))
        proposed = [
            ReferenceCall(tool=tool.name, arguments=arguments)
            for tool in self.task.program.tools
            if tool.kind == "change" and tool.name != call.tool
            for arguments in propose_arguments(tool, state_values, call_reference, UNDO_A_TOOL)
        ]
        at = calls.index(call) + 1
        for back in proposed:
            if related_texts.isdisjoint(text for text in back.arguments.values() if isinstance(text, str)):
                continue
            undoing = self.task.reference.model_copy(update={"calls": (*calls[:at], back, *calls[at:])})
            way = self.execute(undoing, f"besides, {_format_call(call)} and {_format_call(back)}")
            if way is not None and way.digest != self.own.digest:
                yield way

    def _other_answers(self) -> Iterator[ExecutedWay]:
        """Yield the reference's end with other answers, and with the same in another spelling."""
        reference, form = self.task.reference, self.task.form
        for about, answer in [
            ("nothing is submitted", ""),
            *_iter_answers(form, reference.answer, self.start.state, self._luck),
        ]:
            other_reference = reference.model_copy(update={"answer": answer})
            yield ExecutedWay(about, other_reference, self.own.state, self.own.digest)


def _iter_shorter(calls: Calls) -> Iterator[tuple[str, Calls]]:
    for step, call in enumerate(calls):
        yield f"without call {step + 1} ({call.tool})", (*calls[:step], *calls[step + 1 :])
    for step in range(1, len(calls)):
        yield f"only the first {step} calls", calls[:step]
        yield f"without the first {step} calls", calls[step:]


def _iter_exchanged(calls: Calls) -> Iterator[tuple[str, Calls]]:
    pairs = [(one, two) for one, two in combinations(range(len(calls)), 2) if calls[one].tool == calls[two].tool]
    for first, second in pairs[:EXCHANGED]:
        between = calls[first + 1 : second]
        exchanged = (*calls[:first], calls[second], *between, calls[first], *calls[second + 1 :])
        yield f"calls {first + 1} and {second + 1} exchanged", exchanged
    yield "in the opposite order", calls[::-1]


def _iter_answers(
    form: Sequence[AnswerField], answer: str, start: State, luck: random.Random
) -> Iterator[tuple[str, str]]:
    """Yield other answers that fit the form, as an attempt that submits them has them."""
    try:
        own_answer = json.loads(answer)
    except ValueError:
        return
    state_values = StateValues(start)
    for field in form:
        for other in _list_values(field, own_answer.get(field.name), state_values, luck):
            try:
                submitted = read_submission(form, {**own_answer, field.name: other})
            except InputError:
                continue
            yield f"the answer with {field.name}={other!r:.80}", serialize_answer(submitted)


def _list_values(field: AnswerField, own: Any, seen: StateValues, luck: random.Random) -> list[Any]:
    if field.type in ("number", "money", "duration") and isinstance(own, int | float):
        near = [own + step for step in (-1, 0.5, 3, 10)] + [0, -own, own * 2, own + 100_000]
        return [float(own), *(round(other, 2) for other in [*near, own * 1.1, own * 0.9, own * 1.2, own * 0.5])]
    if field.type == "date":
        return ["2026-01-01", f"{str(own)[:8]}01", f"{str(own)[:8]}28"]
    if field.type == "time":
        return ["00:00", "23:59", f"{str(own)[:2]}:07", f"{(int(str(own)[:2]) + 1) % 24:02d}{str(own)[2:]}"]
    if field.type == "boolean":
        return [True, False]
    if field.type == "enumeration":
        return list(field.choices)
    if field.type == "list" and isinstance(own, list):
        return [own[::-1], own[:-1], own + own[:1], []]
    if not isinstance(own, str):
        return []
    others = [word for word in seen.named.get("name", ()) if isinstance(word, str) and word != own]
    others += [key for records in seen.records.values() if own in records for key in records if key != own]
    luck.shuffle(others)
    return [own.upper(), f" {own.lower()} ", f"not {own}", f"{own} or {others[0] if others else 'none'}", *others[:4]]


def _format_call(call: ReferenceCall) -> str:
    return f"{call.tool}({', '.join(f'{name}={given!r:.60}' for name, given in call.arguments.items())})"
