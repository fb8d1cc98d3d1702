"""The audit's heat map: number, sign and shade of each cell; the batch's funnel narrows."""

from __future__ import annotations

import pytest

from webapp.batches.pages.progress import center_bar, draw_neck
from webapp.scenarios.audits.mutant_matrix import HeatCell


@pytest.mark.parametrize(
    ("count", "tried", "heat"),
    [(0, 9, 0), (0, 0, 0), (1, 9, 1), (2, 9, 1), (3, 9, 2), (5, 9, 2), (6, 9, 3), (8, 9, 3), (9, 9, 4), (1, 1, 4)],
)
def test_shades_are_shares_and_each_has_a_sign(count: int, tried: int, heat: int) -> None:
    cell = HeatCell(count, tried)
    assert cell.heat == heat
    assert cell.sign == "·◔◑◕●"[heat]


def test_the_funnel_is_in_the_middle_and_narrows_to_what_is_left() -> None:
    assert center_bar([("kept", 0.0, 30.0), ("failed", 30.0, 10.0)]) == [("kept", 30.0, 30.0), ("failed", 60.0, 10.0)]
    assert center_bar([]) == []
    assert draw_neck(80, 40, 100) == "10.00,0 90.00,0 70.00,10 30.00,10"
    assert draw_neck(0, 0, 100) == draw_neck(5, 5, 0) == ""
    assert draw_neck(10, 20, 10) == "0.00,0 100.00,0 100.00,10 0.00,10", "never wider below"
