"""Writes on playgrounds: start, run a call, undo, redo, reset. The sandbox runs outside of transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from django.db import transaction

from synthesis.contracts import DEFAULT_NOW, DEFAULT_SEED, CallError, CallResult, Program, State, Validation
from synthesis.errors import EnvariumError, EpisodeLost, InputError, ProgramEnded, StateError
from synthesis.formats.values import clean_text
from synthesis.runtime import get_default_sandbox
from synthesis.runtime.child.schema import validate_arguments
from synthesis.runtime.encoding import apply_patch, decode_state, hash_state
from synthesis.runtime.episode import Episode
from webapp.environments.models import Version
from webapp.environments.services import build_program
from webapp.scenarios.models import Playground, PlaygroundCall, Scenario, TaskRevision
from webapp.scenarios.playground.live_episodes import CACHE, LiveEpisode
from webapp.scenarios.references import build_offered_program
from webapp.scenarios.states import load_state, store_state

MOST_CALLS = 500
LOST = {
    "time": "The call did not come back in time, so its process was ended.",
    "memory": "The call used more memory than it may, so its process was ended.",
    "protocol": "What came back from the call's process could not be read, so the process was ended.",
}


NOT_ITS_OWN = "This call is the parent's: a fork is taken back as far as the step that it was made at."
CONTINUES = "The playground continues from before that call."


class Conflict(EnvariumError):
    """A change of the playground by another person or tab since this page was loaded."""

    def __init__(self) -> None:
        super().__init__(
            "This playground went on in another tab or window. You see it as it is now; what you sent was not run."
        )


class CallLost(EnvariumError):
    """A call that ended its process. Nothing was stored; the playground is unchanged."""


class Diverged(EnvariumError):
    """A repetition of the stored calls that did not lead to the stored state."""

    def __init__(self, index: int) -> None:
        super().__init__(
            f"The live process was gone, and running the calls again went another way at call {index}. "
            "Your history is kept as it was. Undo back to before that call, or reset to start again."
        )
        self.index = index


@lru_cache(maxsize=32)
def load_program(version_id: int, revision_id: int | None = None) -> Program:
    """Return a version's program, or what a revision of a task offers of it; neither ever changes."""
    if revision_id is not None:
        rows = TaskRevision.objects.select_related("scenario__version").defer("record", "scenario__version__record")
        return build_offered_program(rows.get(pk=revision_id))
    return build_program(Version.objects.get(pk=version_id))


@lru_cache(maxsize=8)
def load_cached_state(digest: str) -> Any:
    """Return a stored state; callers must not change it."""
    return load_state(digest)


def create_playground(
    user: Any, version: Version, scenario: Scenario | None, origin: Playground | None = None
) -> Playground:
    """Start an episode and create the playground that owns it. Raises the errors of the sandbox."""
    initial = scenario.initial_id if scenario else None
    seed, now = (origin.seed, origin.now) if origin else (DEFAULT_SEED, DEFAULT_NOW)
    episode = _start_episode(load_program(version.pk), initial, seed, now)
    try:
        start = store_state(episode.state())
    except BaseException:
        episode.close()
        raise
    row = Playground.objects.create(
        user=user,
        version=version,
        scenario=scenario,
        initial_id=initial,
        start=start,
        origin=origin,
        seed=seed,
        now=now,
    )
    CACHE.put(row.pk, LiveEpisode(episode, row.serial))
    return row


@dataclass(frozen=True)
class MadeCall:
    """A call that was made in an episode before a playground took it over, and the state's hash after it."""

    tool: str
    arguments: dict[str, Any]
    result: CallResult
    state_hash: str


@dataclass(frozen=True)
class EarlierCalls:
    """Start of a playground: an episode, its first state, the calls made in it, and those that may follow."""

    episode: Episode
    start: State
    made: Sequence[MadeCall]
    following: Sequence[dict[str, Any]] = ()


def create_adopted_playground(
    user: Any, revision: TaskRevision, earlier: EarlierCalls, *, seed: int, now: str, validation: Validation
) -> Playground:
    """Create a playground at a task that continues after calls which undo leaves alone. Redo offers those that
    `follow`."""
    scenario = revision.scenario
    start = store_state(earlier.start)
    with transaction.atomic():
        row = Playground.objects.create(
            user=user,
            version_id=scenario.version_id,
            revision=revision,
            scenario=scenario,
            initial_id=scenario.initial_id,
            start=start,
            seed=seed,
            now=now,
            length=len(earlier.made),
            kept=len(earlier.made),
            validation=validation,
            undone=list(reversed(earlier.following)),
        )
        PlaygroundCall.objects.bulk_create(
            _build_call_row(row, index, call, validation) for index, call in enumerate(earlier.made, 1)
        )
    CACHE.put(row.pk, LiveEpisode(earlier.episode, row.serial))
    return row


def _build_call_row(row: Playground, index: int, call: MadeCall, validation: Validation) -> PlaygroundCall:
    result = call.result
    return PlaygroundCall(
        playground=row,
        index=index,
        tool=call.tool[:200],
        arguments=call.arguments,
        validation=validation,
        ok=result.ok,
        result=result.result,
        error=result.error.model_dump() if result.error else None,
        patch=list(result.patch),
        change_count=len(result.patch),
        duration_us=result.duration_us,
        state_hash=call.state_hash,
    )


def reset_playground(row: Playground) -> Playground:
    """Return a new playground with the same start; this one remains as it is."""
    if row.revision_id is not None:
        raise InputError("A fork is begun again from its parent's replay; this one stays as it is.")
    return create_playground(row.user, row.version, row.scenario, origin=row)


def _start_episode(begun: Program, initial: str | None, seed: int, now: str) -> Episode:
    state = load_cached_state(initial) if initial else {}
    return get_default_sandbox().reset(begun, state, seed=seed, now=now, validation="source")


def was_executed(call: PlaygroundCall) -> bool:
    """Return whether a call reached the program; one refused before that leaves no trace in the episode."""
    kind, name = (call.error or {}).get("kind"), (call.error or {}).get("type")
    return kind != "unknown_tool" and not (kind == "bad_arguments" and not name)


def get_live_episode(row: Playground) -> LiveEpisode:
    """Return the episode in the playground's state, rebuilt by running the stored calls if it is gone."""
    live = CACHE.take(row.pk, row.serial)
    if live is None:
        live = LiveEpisode(_rebuild_episode(row), row.serial)
        CACHE.put(row.pk, live)
    return live


def _rebuild_episode(row: Playground) -> Episode:
    calls = list(row.calls.only("index", "tool", "arguments", "patch", "error", "state_hash"))
    episode = _start_episode(load_program(row.version_id, row.revision_id), row.initial_id, row.seed, row.now)
    try:
        for call in calls:
            if was_executed(call) and episode.call(call.tool, call.arguments).patch != call.patch:
                raise Diverged(call.index)
        if episode.state_hash() != get_state_hash(row):
            raise Diverged(calls[-1].index if calls else 0)
    except ProgramEnded as error:
        episode.close()
        raise Diverged(len(calls)) from error
    except BaseException:
        episode.close()
        raise
    return episode


def get_state_hash(row: Playground) -> str:
    """Return the hash of the state after the last call."""
    last = row.calls.order_by("-index").values_list("state_hash", flat=True).first()
    return last or (row.start.state_hash if row.start else hash_state({}))


def run_call(
    row: Playground, serial: int, tool: str, arguments: dict[str, Any], validation: Validation
) -> PlaygroundCall:
    """Run one call and store it. Raises Conflict, CallLost, Diverged or what the sandbox raises."""
    _require_serial(row, serial)
    validation = cast(Validation, row.validation or validation)
    if row.length >= MOST_CALLS:
        raise CallLost(f"A playground holds {MOST_CALLS} calls. Reset to go on; this history stays.")
    refusal = (
        find_refusal(load_program(row.version_id, row.revision_id), tool, arguments) if validation == "schema" else None
    )
    if refusal is not None:
        return _store_call(row, serial, tool, arguments, validation, refusal, get_state_hash(row), None)
    live = get_live_episode(row)
    with live.lock:
        # Another request may have changed the episode while this one waited for the lock.
        if live.serial != serial:
            raise Conflict
        try:
            result = live.episode.call(tool, arguments)
            digest = live.episode.state_hash() if result.patch else get_state_hash(row)
            _require_fitting(row, result)
        except EpisodeLost as error:
            CACHE.drop(row.pk)
            what = LOST.get(error.reason, "The process ended before the call came back.")
            detail = f" ({error.detail})" if error.detail else ""
            raise CallLost(f"{what}{detail} {CONTINUES}") from error
        except StateError as error:
            CACHE.drop(row.pk)
            what = "What the call left behind cannot be used, so its process was ended"
            raise CallLost(f"{what}: {clean_text(str(error))[:500]}. {CONTINUES}") from error
        return _store_call(row, serial, tool, arguments, validation, result, digest, live)


def _require_fitting(row: Playground, result: CallResult) -> None:
    """Raise StateError if a call's patch does not fit the state before it, or the new state cannot be read."""
    if not result.patch:
        return
    state = load_cached_state(row.start_id) if row.start_id else {}
    for patch in row.calls.filter(change_count__gt=0).order_by("index").values_list("patch", flat=True):
        state = apply_patch(state, patch)
    decode_state(apply_patch(state, result.patch))


def find_refusal(called: Program, tool: str, arguments: dict[str, Any]) -> CallResult | None:
    """Return the error that an agent gets if its arguments do not fit the tool's schema; None if they fit."""
    schema = next((item.parameters for item in called.tools if item.name == tool), None)
    problem = validate_arguments(arguments, schema) if schema is not None else None
    if problem is None:
        return None
    return CallResult(ok=False, error=CallError(kind="bad_arguments", message=problem))


def _require_serial(row: Playground, serial: int) -> None:
    if row.serial != serial:
        raise Conflict


def _store_call(
    row: Playground,
    serial: int,
    tool: str,
    arguments: dict[str, Any],
    validation: Validation,
    result: CallResult,
    digest: str,
    live: LiveEpisode | None,
) -> PlaygroundCall:
    try:
        with transaction.atomic():
            locked_row = Playground.objects.select_for_update().get(pk=row.pk)
            _require_serial(locked_row, serial)
            call = PlaygroundCall.objects.create(
                playground=locked_row,
                index=locked_row.length + 1,
                tool=tool[:200],
                arguments=arguments,
                validation=validation,
                ok=result.ok,
                result=result.result,
                error=result.error.model_dump() if result.error else None,
                patch=list(result.patch),
                change_count=len(result.patch),
                duration_us=result.duration_us,
                state_hash=digest,
            )
            _advance_playground(locked_row, length=locked_row.length + 1, undone=[])
    except BaseException:
        # The live episode has made the call already: without its row it is ahead of the stored state.
        if live is not None:
            CACHE.drop(row.pk)
        raise
    kept_live = live or CACHE.take(row.pk, serial)
    if kept_live is not None:
        kept_live.serial = locked_row.serial
    return call


def _advance_playground(held: Playground, *, length: int, undone: list[Any]) -> None:
    held.serial += 1
    held.length = length
    held.undone = undone
    held.save(update_fields=["serial", "length", "undone", "updated_at"])


def undo_call(row: Playground, serial: int) -> PlaygroundCall | None:
    """Remove the last call. The episode is rebuilt without it when it is next needed."""
    with transaction.atomic():
        locked_row = Playground.objects.select_for_update().get(pk=row.pk)
        _require_serial(locked_row, serial)
        last = locked_row.calls.order_by("-index").first()
        if last is None:
            return None
        if last.index <= locked_row.kept:
            raise InputError(NOT_ITS_OWN)
        undone_call = {"tool": last.tool, "arguments": last.arguments, "validation": last.validation}
        last.delete()
        _advance_playground(locked_row, length=locked_row.length - 1, undone=[*locked_row.undone, undone_call])
    CACHE.drop(row.pk)
    return last


def redo_call(row: Playground, serial: int) -> PlaygroundCall | None:
    """Run the call again that undo removed last."""
    if not row.undone:
        return None
    *rest, last = row.undone
    call = run_call(row, serial, last["tool"], last["arguments"], last["validation"])
    Playground.objects.filter(pk=row.pk, serial=serial + 1).update(undone=rest)
    return call
