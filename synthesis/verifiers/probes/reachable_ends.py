"""Ends that the environment's own tools can reach beside the right one, searched in a bounded number of executions.

Short sequences are tried after, before or instead of the reference's calls, on the records that it is about. An end
inside the frame that holds something else than the reference's, outside volatile and declared places, is wrong: a
verifier that gives it the full reward does not notice what an agent did. An end that returns to the reference's by a
detour is right. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from synthesis.contracts import Reference, ReferenceCall, State, is_refusal
from synthesis.errors import ProgramEnded
from synthesis.runtime import Episode, Sandbox, is_same_encoded
from synthesis.runtime.encoding import share_unchanged
from synthesis.verifiers.call_sequences import ExecutedSequence, Subject, find_end_key, find_outside
from synthesis.verifiers.frame import Key
from synthesis.verifiers.mutants import Mutant, format_calls
from synthesis.verifiers.plausible_arguments import KnownValues, propose_arguments, read_known_values
from synthesis.verifiers.state_changes import find_state_changes

MOST_EPISODES = 32
"""Executions of the reference with an additional call that are made in the search."""
AFTER, INSTEAD = 20, 8
"""Of these, behind the reference and instead of one of its calls; the rest before it."""
A_TOOL = 8
"""Of one tool so many calls are tried at one place."""
DEEPEST = 3
UNDO_TRIES, UNDO_A_TOOL = 8, 2
MOST_ENDS, MOST_DETOURS = 14, 3
ENDS_AFTER, ENDS_INSTEAD = 8, 10
"""So many ends are kept of what is done behind the reference, and of that with what is done instead of a call."""


def find_reachable_ends(sandbox: Sandbox, subject: Subject, start: State, first: ExecutedSequence) -> list[Mutant]:
    """Return wrong ends, which must earn less than 1, and detours to the right one, which must earn 1.

    Raise ProgramError and InfrastructureError.
    """
    if first.state is None or subject.reference is None:
        return []
    search = _Search(sandbox, subject, subject.reference, start, first.state)
    for place in ("after", "instead", "before"):
        search.explore(place, first.changing)
    return [*search.ends.values(), *search.detours]


@dataclass
class _Search:
    sandbox: Sandbox
    subject: Subject
    reference: Reference
    start: State
    end: State
    ends: dict[Key, Mutant] = field(default_factory=dict)
    detours: list[Mutant] = field(default_factory=list)
    episodes: int = 0

    def __post_init__(self) -> None:
        self.right = self._key(self.end)
        self.known = self._read_own_values(self.end)

    def explore(self, place: Literal["after", "instead", "before"], changing: Sequence[int]) -> None:
        """Search at one place, as long as there are executions left for it."""
        calls = self.reference.calls
        if place == "after":
            self._walk(calls, (), AFTER, ENDS_AFTER, "behind the reference")
        elif place == "before" and calls:
            self._walk((), calls, MOST_EPISODES, MOST_ENDS, "before the reference")
        elif place == "instead":
            for step in changing:
                name = f"instead of call {step + 1} ({calls[step].tool})"
                most = AFTER + INSTEAD, ENDS_INSTEAD
                self._walk(calls[:step], calls[step + 1 :], *most, name, skip=calls[step].tool)

    def _walk(
        self,
        before: Sequence[ReferenceCall],
        behind: Sequence[ReferenceCall],
        most: int,
        most_ends: int,
        name: str,
        skip: str = "",
    ) -> None:
        """Try calls of each tool in turn between two parts of the reference.

        From a new end inside the frame continue, if no part of the reference follows.
        """
        waiting = {
            tool.name: iter(propose_arguments(tool, self.known, self.reference, A_TOOL))
            for tool in self.subject.program.tools
            if tool.kind == "change" and tool.name != skip
        }
        episode: Episode | None = None
        added: list[ReferenceCall] = []
        try:
            while waiting and self.episodes < most and len(self.ends) < most_ends:
                if episode is None:
                    episode, added = self._begin(before), []
                    if episode is None:
                        return
                call = self._make_next_call(episode, waiting)
                if call is None:
                    return
                added = [*added, call]
                goes_on = self._judge(episode, before, added, behind, name)
                if behind or not goes_on or len(added) == DEEPEST:
                    episode.close()
                    episode = None
        except ProgramEnded:
            return
        finally:
            if episode is not None:
                episode.close()

    def _make_next_call(self, episode: Episode, waiting: dict[str, Iterator[dict[str, Any]]]) -> ReferenceCall | None:
        """Return the next call that succeeds and changes something, of the tools in turn; None if there is none."""
        while waiting:
            name = next(iter(waiting))
            proposals = waiting.pop(name)
            for arguments in proposals:
                result = episode.call(name, dict(arguments))
                if result.patch and not is_refusal(result.ok, result.result):
                    waiting[name] = proposals
                    return ReferenceCall(tool=name, arguments=arguments)
        return None

    def _judge(
        self,
        episode: Episode,
        before: Sequence[ReferenceCall],
        added: Sequence[ReferenceCall],
        behind: Sequence[ReferenceCall],
        name: str,
    ) -> bool:
        """Execute the remaining calls, and store an end that is wrong; return whether the search may continue from
        here."""
        for call in behind:
            episode.call(call.tool, dict(call.arguments))
        state = share_unchanged(self.start, episode.state())
        calls = (*before, *added, *behind)
        if find_outside(self.subject, self.start, state):
            if not behind:
                self._undo(episode, calls, added[-1], name)
            return False
        key = self._key(state)
        if key != self.right and key not in self.ends:
            self.ends[key] = self._mutant("end_reached", calls, name, "less")
        return True

    def _undo(self, episode: Episode, calls: tuple[ReferenceCall, ...], last: ReferenceCall, name: str) -> None:
        """Try to undo the last call: by calls on the records that it named or added."""
        if len(self.detours) >= MOST_DETOURS:
            return
        state = episode.state()
        own = {key for change in find_state_changes(self.end, state) for key, _ in change.items if key}
        own |= {text for text in last.arguments.values() if isinstance(text, str)}
        known_values_now, last_alone = self._read_own_values(state, own), Reference(calls=(last,))
        proposed = [
            ReferenceCall(tool=tool.name, arguments=arguments)
            for tool in self.subject.program.tools
            if tool.kind == "change" and tool.name != last.tool
            for arguments in propose_arguments(tool, known_values_now, last_alone, UNDO_A_TOOL)
        ]
        proposed.sort(
            key=lambda call: -sum(value in own for value in call.arguments.values() if isinstance(value, str))
        )
        for call in proposed[:UNDO_TRIES]:
            result = episode.call(call.tool, dict(call.arguments))
            if not result.patch or is_refusal(result.ok, result.result):
                continue
            after = episode.state()
            if self._key(after) == self.right and not is_same_encoded(after, self.end):
                self.detours.append(self._mutant("detour_made", (*calls, call), name, "full"))
            return

    def _begin(self, calls: Sequence[ReferenceCall]) -> Episode | None:
        self.episodes += 1
        subject = self.subject
        episode = self.sandbox.reset(
            subject.program, subject.initial, seed=subject.seed, now=subject.now, validation=subject.validation
        )
        try:
            for call in calls:
                episode.call(call.tool, dict(call.arguments))
        except ProgramEnded:
            episode.close()
            return None
        except BaseException:
            episode.close()
            raise
        return episode

    def _read_own_values(self, state: State, own: set[str] | None = None) -> KnownValues:
        """Return the known values of a state, the records that the reference is about before all others."""
        known = read_known_values(state, self.reference)
        if own is None:
            added = find_state_changes(self.start, state)
            own = known.used | {key for change in added for key, _ in change.items if key}
        several = (*known.keys.values(), *known.values.values())
        known.used = {text for values in several for text in values if isinstance(text, str)} - own
        return known

    def _key(self, state: State) -> Key:
        return find_end_key(self.subject, self.start, state, bounded=True)

    def _mutant(
        self,
        kind: Literal["end_reached", "detour_made"],
        calls: tuple[ReferenceCall, ...],
        name: str,
        expects: Literal["less", "full"],
    ) -> Mutant:
        reference = self.reference.model_copy(update={"calls": calls})
        return Mutant(kind=kind, place=name, after=format_calls(calls), reference=reference, expects=expects)
