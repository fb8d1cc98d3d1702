"""The reward of an end state by a golden one, and the hash of a golden verifier."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from synthesis.contracts import OutsideChange, Reward, State, Verdict
from synthesis.contracts.verifier_kinds import GoldenVerifier
from synthesis.errors import InputError
from synthesis.runtime import hash_state
from synthesis.verifiers.checks import compute_reward
from synthesis.verifiers.frame_words import format_outside_change
from synthesis.verifiers.golden.state_comparison import golden_differences

STATE_LABEL = "The end state is the golden state"
"""What the verdict on an end state is called."""
MOST_SAID = 3
"""So many differences are named in a verdict's reason."""


def build_state_verdict(differences: Sequence[OutsideChange]) -> Verdict:
    """Return the verdict on an end state, with the first differences in words."""
    lines = [format_outside_change(change) for change in differences[:MOST_SAID]]
    more = ["and more"] if len(differences) > MOST_SAID else []
    reason = f"It differs from the golden state: {'; '.join([*lines, *more])}." if lines else ""
    return Verdict(passed=not differences, reason=reason)


def reward_golden(golden: GoldenVerifier, verdicts: Sequence[Verdict], start: State, end: State) -> Reward:
    """Return the reward of an end: 1 if it equals the golden state and all checks pass, else 0.

    `verdicts` are those of the checks. The first of the reward's verdicts is that on the state. Raise InputError if a
    verdict is missing.
    """
    if len(verdicts) != len(golden.checks):
        raise InputError("A golden state needs one verdict for each check of the answer form.")
    differences = golden_differences(golden, start, end)
    return compute_reward([build_state_verdict(differences), *verdicts], "golden", outside=differences)


def hash_golden(golden: GoldenVerifier) -> str:
    """Return the SHA-256, in hex, of the parts of a golden verifier that decide rewards: no names or reasons."""
    text = json.dumps(
        {
            "kind": "golden",
            "state": hash_state(golden.state),
            "equality": golden.equality,
            "volatile": sorted({(item.path, item.role) for item in golden.volatile}),
            "checks": [check.source for check in golden.checks],
        },
        sort_keys=True,
    )
    return hashlib.sha256(text.encode("ascii")).hexdigest()


__all__ = ["build_state_verdict", "hash_golden", "reward_golden"]
