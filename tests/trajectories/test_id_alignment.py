"""Which recorded values stand for which reproduced ones."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.contracts import CallError, CallResult
from webapp.trajectories.id_alignment import Aligner

INITIAL = {"orders": {"O-1": {"id": "O-1", "note": "call Ada at 5551234", "weight": 70_000}}}


def learn(recorded: str, value: Any, said: dict[str, Any] | None = None) -> dict[Any, Any]:
    aligner = Aligner(INITIAL)
    aligner.arguments(said or {})
    aligner.observe(recorded, CallResult(ok=True, result=value))
    return aligner.pairs


@pytest.mark.parametrize(
    ("recorded", "value", "pairs"),
    [
        ("{'id': 'abc-1'}", {"id": "xyz-9"}, {"abc-1": "xyz-9"}),
        ("{'id': 'abc-1'}", {"id": "abc-1"}, {}),
        ("{'data': ['k', {'id': 'abc-1'}]}", {"data": ["k", {"id": "xyz-9"}]}, {"abc-1": "xyz-9"}),
        ("{'abc-1': {'n': 1}}", {"xyz-9": {"n": 1}}, {"abc-1": "xyz-9"}),
        ("Order abc-1 is booked.", "Order xyz-9 is booked.", {"abc-1": "xyz-9"}),
        ("{'number': 123456}", {"number": 654321}, {123456: 654321}),
        ("{'number': 3}", {"number": 4}, {}),
        ("{'ok': True}", {"ok": False}, {}),
        ("{'id': 'O-1'}", {"id": "xyz-9"}, {}),
        ("{'phone': '5551234'}", {"phone": "xyz-9"}, {}),
        ("{'weight': 70000}", {"weight": 80000}, {}),
        ("{'a': 'abc-1', 'b': 1}", {"a": "xyz-9"}, {}),
        ("{'id': 'said-1'}", {"id": "xyz-9"}, {}),
    ],
)
def test_only_values_that_the_run_generated_are_paired(recorded: str, value: Any, pairs: dict[Any, Any]) -> None:
    assert learn(recorded, value, {"name": "said-1"}) == pairs


def test_pairs_are_used_in_later_arguments() -> None:
    aligner = Aligner(INITIAL)
    aligner.observe("{'id': 'abc-123', 'n': 4711}", CallResult(ok=True, result={"id": "xyz-999", "n": 1147}))
    said = {"id": "abc-123", "list": ["abc-123", 4711], "text": "see abc-123!", "abc-123": True, "other": 1}
    assert aligner.arguments(said) == {
        "id": "xyz-999",
        "list": ["xyz-999", 1147],
        "text": "see xyz-999!",
        "xyz-999": True,
        "other": 1,
    }


def test_errors_teach_nothing() -> None:
    aligner = Aligner(INITIAL)
    aligner.observe("abc-1", CallResult(ok=False, error=CallError(kind="raised", message="xyz-9")))
    aligner.observe(None, CallResult(ok=True, result="xyz-9"))
    assert aligner.pairs == {}
