"""The state after any step: the last snapshot at or before it and the patches since, 50 at most."""

from __future__ import annotations

from synthesis.contracts import State
from synthesis.errors import InputError, ReplayMismatch
from synthesis.runtime.encoding import apply_patch, hash_state
from webapp.scenarios.states import load_state
from webapp.trajectories.models import Step, Trajectory


def load_state_at(trajectory: Trajectory, index: int, *, verify: bool = False) -> State:
    """Return the encoded state after step `index`; step 0 is the task's text, so index 0 gives the start state.

    Raises `InputError` if the run has no such step or no stored state. `verify` compares the hash with the one stored
    for a snapshot or the end, if there is one, and raises `ReplayMismatch`.
    """
    base = trajectory.steps.filter(index__lte=index, snapshot__isnull=False).order_by("-index").first()
    if base is None or not 0 <= index < trajectory.step_count:
        raise InputError(f"The run has no stored state at step {index}.")
    state = load_state(base.snapshot_id or "")
    patches = trajectory.steps.filter(index__gt=base.index, index__lte=index).order_by("index")
    for patch in patches.values_list("patch", flat=True):
        if patch:
            state = apply_patch(state, patch)
    if verify:
        _verify_state(trajectory, index, state)
    return state


def load_states(trajectory: Trajectory, first: int, last: int) -> list[tuple[int, State]]:
    """Return the states after steps `first` to `last`, sharing what did not change."""
    state = load_state_at(trajectory, first)
    states = [(first, state)]
    rows = trajectory.steps.filter(index__gt=first, index__lte=last).order_by("index")
    for index, patch, snapshot in rows.values_list("index", "patch", "snapshot_id"):
        if patch:
            state = apply_patch(state, patch)
        elif snapshot:
            state = load_state(snapshot)
        states.append((index, state))
    return states


def _verify_state(trajectory: Trajectory, index: int, state: State) -> None:
    expected = ""
    if index == trajectory.step_count - 1:
        expected = trajectory.final_hash
    else:
        step = Step.objects.filter(trajectory=trajectory, index=index, snapshot__isnull=False).first()
        expected = step.snapshot.state_hash if step and step.snapshot else ""
    if expected and hash_state(state) != expected:
        raise ReplayMismatch(f"The stored state of step {index} is damaged: its hash is another one.")


def find_broken_steps(trajectory: Trajectory) -> list[int]:
    """Return snapshots (and the end) that do not result from the patches before them; empty if all match."""
    state = load_state_at(trajectory, 0)
    broken = []
    rows = trajectory.steps.filter(index__gt=0).order_by("index")
    for index, patch, count, snapshot, digest in rows.values_list(
        "index", "patch", "change_count", "snapshot_id", "snapshot__state_hash"
    ):
        state = apply_patch(state, patch) if patch else state
        if snapshot and (patch or not count) and hash_state(state) != digest:
            broken.append(index)
        if snapshot:
            state = load_state(snapshot)
    if trajectory.final_hash and hash_state(state) != trajectory.final_hash:
        broken.append(trajectory.step_count - 1)
    return broken
