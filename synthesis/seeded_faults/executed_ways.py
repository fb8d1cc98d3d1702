"""Ways to do a sound task and not to do it, executed: what tells a verifier with a fault from the sound one.

They are drawn by lot, apart from the probes of an audit: calls left out, exchanged, made with other arguments, made
besides, made and taken back, and answers that say something else or the same in another spelling. Which of them are
right the sound verifier says.
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
from synthesis.formats.answer_form import answer_text, read_submission
from synthesis.runtime import Sandbox, state_hash
from synthesis.runtime.encoding import share_unchanged
from synthesis.scripted.programs.tester import StateValues, value
from synthesis.seeded_faults.sound_tasks import JudgedTask
from synthesis.verifiers.check_table import End, verdict_table
from synthesis.verifiers.checks import mark_of, reward_of
from synthesis.verifiers.frame import outside_changes
from synthesis.verifiers.plausible_arguments import allowed_values, known_values, plausible_arguments
from synthesis.verifiers.state_changes import state_changes

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
    """A call sequence with an answer, and the end that it came to."""

    about: str
    reference: Reference
    state: State
    digest: str


@dataclass(frozen=True)
class ShownFault:
    """A way on which a verifier and the sound one disagree."""

    effect: Effect
    way: ExecutedWay


class TaskWays:
    """The ways of one sound task with what its verifier gives for each."""

    def __init__(self, sandbox: Sandbox, task: JudgedTask, seed: int) -> None:
        self.task = task
        self._sandbox, self._luck = sandbox, random.Random(f"{seed} {task.name}")
        self._verdicts: dict[tuple[str, str, str], Verdict] = {}
        self._outside: dict[str, bool] = {}
        self._making = Lock()
        self._known: list[tuple[ExecutedWay, bool]] = []

    @cached_property
    def start(self) -> ExecutedWay:
        """What the task begins with."""
        start = self.execute(Reference(), "nothing is done")
        assert start is not None
        return start

    @cached_property
    def own(self) -> ExecutedWay:
        """The reference's end."""
        own = self.execute(self.task.reference, "the reference")
        assert own is not None
        return own

    def known(self) -> list[tuple[ExecutedWay, bool]]:
        """Each way with whether the sound verifier pays it in full; made when it is first asked for."""
        with self._making:
            if not self._known:
                ways = self._distinct([self.own, self.start, *self._other_calls(), *self._other_answers()])
                self._known = [(way, self.is_paid(self.task, way)) for way in self._judged(self.task, ways)]
        return self._known

    def start_verdicts(self) -> list[Verdict]:
        """What the sound verifier's checks say of the start, the own ones first."""
        self._judged(self.task, ())
        return self._column(self.task.every_check, self.start, "")

    def execute(self, reference: Reference, about: str) -> ExecutedWay | None:
        """A way as it ends; None if its episode is lost."""
        try:
            with self._sandbox.reset(self.task.program, self.task.initial) as episode:
                for call in reference.calls:
                    episode.call(call.tool, dict(call.arguments))
                state = episode.state()
        except ProgramEnded:
            return None
        digest = state_hash(state)
        if reference.calls:
            state = share_unchanged(self.start.state, state)
        return ExecutedWay(about, reference, state, digest)

    def find_difference(self, faulty: JudgedTask, more: Iterable[tuple[str, Reference]] = ()) -> ShownFault | None:
        """The first way on which a faulty verifier and the sound one disagree, of `more`, which are tried first, and
        of all."""
        extra = self._distinct(way for about, made in more if (way := self.execute(made, about)) is not None)
        ways = [*((way, self.is_paid(self.task, way)) for way in self._judged(self.task, extra)), *self.known()]
        self._judged(faulty, [way for way, _ in ways])
        for way, right in ways:
            if self.is_paid(faulty, way) != right:
                return ShownFault("refused" if right else "paid", way)
        return None

    def is_paid(self, task: JudgedTask, way: ExecutedWay) -> bool:
        """Whether a verifier gives the full reward for a way that it was asked about."""
        if self._is_outside(task, way):
            return False
        marks = [mark_of(verdict) for verdict in self._column(task.every_check, self.start, "")]
        try:
            reward = reward_of(self._column(task.every_check, way, None), task.rule, marks)
        except InputError:
            return False
        return reward.reward >= SOLVED_AT

    def _is_outside(self, task: JudgedTask, way: ExecutedWay) -> bool:
        if task.frame is not self.task.frame:
            return bool(outside_changes(task.frame, self.start.state, way.state))
        if way.digest not in self._outside:
            self._outside[way.digest] = bool(outside_changes(task.frame, self.start.state, way.state))
        return self._outside[way.digest]

    def _column(self, checks: Sequence[CheckRecord], way: ExecutedWay, answer: str | None) -> list[Verdict]:
        text = way.reference.answer if answer is None else answer
        return [self._verdicts[check.source, way.digest, text] for check in checks]

    def _judged(self, task: JudgedTask, ways: Sequence[ExecutedWay]) -> Sequence[ExecutedWay]:
        """The ways, about which each check of a verifier has been asked."""
        ends: list[tuple[str, End]] = [(self.start.digest, (self.start.state, ""))]
        ends += [(way.digest, (way.state, way.reference.answer)) for way in ways]
        for check in task.every_check:
            new = [(digest, end) for digest, end in ends if (check.source, digest, end[1] or "") not in self._verdicts]
            if new:
                columns = verdict_table(self._sandbox, [check.source], self.start.state, [end for _, end in new])
                for (digest, end), (verdict,) in zip(new, columns, strict=True):
                    self._verdicts[check.source, digest, end[1] or ""] = verdict
        return ways

    def _distinct(self, ways: Iterable[ExecutedWay]) -> list[ExecutedWay]:
        found: dict[tuple[str, str], ExecutedWay] = {}
        for way in ways:
            found.setdefault((way.digest, way.reference.answer), way)
        return list(found.values())

    def _other_calls(self) -> Iterator[ExecutedWay]:
        reference = self.task.reference
        made = [(f"another right way ({at + 1})", way.calls) for at, way in enumerate(self.task.ways)]
        made += [*_shorter(reference.calls), *_exchanged(reference.calls), *self._altered(), *self._with_looks()]
        for about, calls in made:
            way = self.execute(reference.model_copy(update={"calls": calls}), about)
            if way is not None:
                yield way
        yield from self._beside()

    def _altered(self) -> list[tuple[str, Calls]]:
        """One argument of a call that changes something is another value that stands in the state."""
        seen, calls = StateValues(self.own.state), self.task.reference.calls
        tools = {tool.name: tool for tool in self.task.program.tools if tool.kind == "change"}
        places = [(step, name) for step, call in enumerate(calls) if call.tool in tools for name in call.arguments]
        found = []
        for _ in range(ALTERED) if places else ():
            step, name = self._luck.choice(places)
            call = calls[step]
            rule = (tools[call.tool].parameters.get("properties") or {}).get(name) or {}
            other = self._draw(name, rule, seen)
            changed = ReferenceCall(tool=call.tool, arguments={**call.arguments, name: other})
            about = f"call {step + 1} ({call.tool}) with {name}={other!r:.80}"
            found.append((about, (*calls[:step], changed, *calls[step + 1 :])))
        return found

    def _with_looks(self) -> list[tuple[str, Calls]]:
        """Everything is looked at before and after, and a call that cannot succeed is made first."""
        calls, tools = self.task.reference.calls, self.task.program.tools
        looks = tuple(
            ReferenceCall(tool=tool.name)
            for tool in tools
            if tool.kind == "query" and not tool.parameters.get("required")
        )
        acts = [call for call in calls if any(tool.name == call.tool and tool.kind == "change" for tool in tools)]
        found = [("everything is looked at before and after", (*looks, *calls, *looks))]
        for call in acts[:2]:
            wrong = {name: NO_SUCH if isinstance(given, str) else given for name, given in call.arguments.items()}
            found.append(
                (f"{call.tool} is tried in vain first", (ReferenceCall(tool=call.tool, arguments=wrong), *calls))
            )
        return found

    def _beside(self) -> Iterator[ExecutedWay]:
        """A call besides, drawn by lot, before or behind all others; some of them are taken back."""
        tools = [tool for tool in self.task.program.tools if tool.kind == "change"]
        seen, calls = StateValues(self.own.state), self.task.reference.calls
        found = undone = tried = 0
        while tools and found < BESIDE and tried < MOST_TRIED:
            tried += 1
            tool = self._luck.choice(tools)
            rules = tool.parameters
            names = [
                name
                for name in rules.get("properties") or {}
                if name in (rules.get("required") or ()) or self._luck.random() < 0.5
            ]
            arguments = {name: self._draw(name, rules["properties"][name], seen) for name in names}
            call = ReferenceCall(tool=tool.name, arguments=arguments)
            order = (call, *calls) if self._luck.random() < 0.5 else (*calls, call)
            way = self._accepted(order, call)
            if way is None:
                continue
            found += 1
            yield way
            if undone < UNDONE:
                for back in self._undone(order, call):
                    undone += 1
                    yield back

    def _accepted(self, calls: Calls, call: ReferenceCall) -> ExecutedWay | None:
        with self._sandbox.reset(self.task.program, self.task.initial) as episode:
            try:
                accepted = False
                for one in calls:
                    result = episode.call(one.tool, dict(one.arguments))
                    if one is call:
                        accepted = bool(result.patch) and not is_refusal(result.ok, result.result)
                        if not accepted:
                            return None
            except ProgramEnded:
                return None
        return self.execute(self.task.reference.model_copy(update={"calls": calls}), f"besides, {_spelled(call)}")

    def _draw(self, name: str, rule: dict[str, Any], seen: StateValues) -> Any:
        """A value for an argument, by lot."""
        choices = allowed_values(rule)
        return self._luck.choice(choices) if choices else value(name, rule, seen, self._luck)

    def _undone(self, calls: Calls, call: ReferenceCall) -> Iterator[ExecutedWay]:
        """The same with a call right behind that comes back to the state before, if one is found."""
        before = self.execute(Reference(calls=calls[: calls.index(call)]), "")
        after = self.execute(Reference(calls=calls[: calls.index(call) + 1]), "")
        if before is None or after is None:
            return
        own = {text for text in call.arguments.values() if isinstance(text, str)}
        own |= {key for change in state_changes(before.state, after.state) for key, _ in change.items if key}
        known, given = known_values(after.state, Reference()), Reference(calls=(call,))
        proposed = [
            ReferenceCall(tool=tool.name, arguments=arguments)
            for tool in self.task.program.tools
            if tool.kind == "change" and tool.name != call.tool
            for arguments in plausible_arguments(tool, known, given, UNDO_A_TOOL)
        ]
        at = calls.index(call) + 1
        for back in proposed:
            if own.isdisjoint(text for text in back.arguments.values() if isinstance(text, str)):
                continue
            made = self.task.reference.model_copy(update={"calls": (*calls[:at], back, *calls[at:])})
            way = self.execute(made, f"besides, {_spelled(call)} and {_spelled(back)}")
            if way is not None and way.digest != self.own.digest:
                yield way

    def _other_answers(self) -> Iterator[ExecutedWay]:
        """The reference's end with other answers, and with the same in another spelling."""
        reference, form = self.task.reference, self.task.form
        for about, answer in [
            ("nothing is submitted", ""),
            *_answers(form, reference.answer, self.start.state, self._luck),
        ]:
            given = reference.model_copy(update={"answer": answer})
            yield ExecutedWay(about, given, self.own.state, self.own.digest)


def _shorter(calls: Calls) -> Iterator[tuple[str, Calls]]:
    for step, call in enumerate(calls):
        yield f"without call {step + 1} ({call.tool})", (*calls[:step], *calls[step + 1 :])
    for step in range(1, len(calls)):
        yield f"only the first {step} calls", calls[:step]
        yield f"without the first {step} calls", calls[step:]


def _exchanged(calls: Calls) -> Iterator[tuple[str, Calls]]:
    pairs = [(one, two) for one, two in combinations(range(len(calls)), 2) if calls[one].tool == calls[two].tool]
    for one, two in pairs[:EXCHANGED]:
        between = calls[one + 1 : two]
        made = (*calls[:one], calls[two], *between, calls[one], *calls[two + 1 :])
        yield f"calls {one + 1} and {two + 1} exchanged", made
    yield "in the opposite order", calls[::-1]


def _answers(form: Sequence[AnswerField], answer: str, start: State, luck: random.Random) -> Iterator[tuple[str, str]]:
    """Other answers that fit the form, as an attempt that submits them has them."""
    try:
        given = json.loads(answer)
    except ValueError:
        return
    seen = StateValues(start)
    for field in form:
        for other in _values(field, given.get(field.name), seen, luck):
            try:
                submitted = read_submission(form, {**given, field.name: other})
            except InputError:
                continue
            yield f"the answer with {field.name}={other!r:.80}", answer_text(submitted)


def _values(field: AnswerField, own: Any, seen: StateValues, luck: random.Random) -> list[Any]:
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


def _spelled(call: ReferenceCall) -> str:
    return f"{call.tool}({', '.join(f'{name}={given!r:.60}' for name, given in call.arguments.items())})"
