"""Horizons by hand, and draws that are the same after a resume."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthesis.errors import InputError
from training.config import Constant, Fractions, Increment, Listed, Mixture, Phase, Sampling
from training.sampler import Catalogue, Prompt, SamplerState, draw_epoch_rows
from training.schedule import get_horizon, get_longest_horizon, list_horizon_changes

LISTED = Listed(turns=(5, 10, 20), every=3)
GROWING = Increment(first=4, increment=3, every=2, cap=9)
PHASES = Fractions(
    phases=(Phase(begins=0, turns=5), Phase(begins=0.34, turns=10), Phase(begins=0.67, turns=20)),
)


def test_horizons_by_hand() -> None:
    assert [get_horizon(LISTED, step, 12) for step in range(12)] == [5, 5, 5, 10, 10, 10, 20, 20, 20, 20, 20, 20]
    assert [get_horizon(GROWING, step, 8) for step in range(8)] == [4, 4, 7, 7, 9, 9, 9, 9]
    # 10 steps: 0.34 x 10 = 3.4, so step 4 is the first of the second phase; 6.7, so step 7 of the third.
    assert [get_horizon(PHASES, step, 10) for step in range(10)] == [5, 5, 5, 5, 10, 10, 10, 20, 20, 20]
    assert get_horizon(Constant(turns=7), 99, 100) == 7
    assert list_horizon_changes(LISTED, 7) == [(0, 5), (3, 10), (6, 20)]
    assert list_horizon_changes(PHASES, 100) == [(0, 5), (34, 10), (67, 20)]
    assert get_longest_horizon(LISTED, 4) == 10
    for step in (-1, 10):
        with pytest.raises(ValueError, match="is not one of 0 to 9"):
            get_horizon(LISTED, step, 10)


@given(step=st.integers(0, 400), steps=st.integers(402, 1000))
@settings(max_examples=50, deadline=None)
def test_horizons_never_shrink(step: int, steps: int) -> None:
    for schedule in (LISTED, GROWING, PHASES):
        assert get_horizon(schedule, step, steps) <= get_horizon(schedule, step + 1, steps)


def prompts(environments: int = 4, each: int = 6) -> list[Prompt]:
    return [Prompt(row=e * each + n, environment=f"e{e}") for e in range(environments) for n in range(each)]


STEP = Sampling(environments=2, tasks=6, rollouts=4)


def drawn(catalogue: Catalogue, draws: int, state: SamplerState | None = None) -> tuple[list[list[int]], SamplerState]:
    state, rows = state or SamplerState(), []
    for _ in range(draws):
        some, state = catalogue.draw(state)
        rows.append(some)
    return rows, state


def test_a_step_has_its_environments_and_tasks_side_by_side() -> None:
    rows, _ = drawn(Catalogue(prompts(), Mixture(), STEP, seed=1), 40)
    for step in rows:
        assert len(step) == len(set(step)) == 6
        first, second = ({row // 6 for row in part} for part in (step[:3], step[3:]))
        assert len(first) == len(second) == 1
        assert first != second


def test_each_environments_tasks_are_gone_through_before_any_comes_again() -> None:
    rows, _ = drawn(Catalogue(prompts(2, 6), Mixture(), STEP, seed=1), 20)
    for a in range(0, 20, 2):  # 2 draws x 3 tasks are one round of 6
        assert sorted(rows[a] + rows[a + 1]) == list(range(12))


def test_where_rounds_end_inside_a_draw_no_task_comes_twice() -> None:
    rows, _ = drawn(Catalogue(prompts(2, 4), Mixture(), STEP, seed=3), 60)
    assert all(len(set(step)) == 6 for step in rows)
    counts = Counter(row for step in rows for row in step)
    assert min(counts.values()) > 0.7 * max(counts.values())


@given(seed=st.integers(0, 2**31 - 1), stop=st.integers(0, 6))
@settings(max_examples=25, deadline=None)
def test_resumed_it_goes_on_as_if_it_had_not_stopped(seed: int, stop: int) -> None:
    mixture = Mixture(environments={"e0": 3.0})
    whole, end = drawn(Catalogue(prompts(), mixture, STEP, seed), 7)
    first, state = drawn(Catalogue(prompts(), mixture, STEP, seed), stop)
    stored = SamplerState.model_validate_json(state.model_dump_json())
    rest, other_end = drawn(Catalogue(list(reversed(prompts()))[::-1], mixture, STEP, seed), 7 - stop, stored)
    assert first + rest == whole
    assert end == other_end


def test_the_numbers_are_the_same_on_every_machine() -> None:
    rows, _ = drawn(Catalogue(prompts(), Mixture(), STEP, seed=1), 2)
    assert rows == [[21, 20, 23, 9, 6, 7], [3, 5, 2, 11, 10, 8]]


def test_weights_of_environments_and_settings() -> None:
    asked = [Prompt(row=100 + n, environment=f"e{n % 2}", setting="conversation") for n in range(20)]
    mixture = Mixture(environments={"e0": 4.0, "e3": 0.0}, settings={"task": 3.0})
    one = Sampling(environments=1, tasks=2, rollouts=2)
    rows, _ = drawn(Catalogue([*prompts(4, 10), *asked], mixture, one, seed=5), 1200)
    chosen = Counter((step[0] - 100) % 2 if step[0] >= 100 else step[0] // 10 for step in rows)
    assert 3 not in chosen
    assert chosen[0] / 1200 == pytest.approx(4 / 6, abs=0.05)
    talks = sum(row >= 100 for step in rows for row in step if row < 20 or row >= 100)
    told = sum(row < 20 for step in rows for row in step)
    assert talks / (talks + told) == pytest.approx(1 / 4, abs=0.04)
    quiet = Catalogue([*prompts(4, 10), *asked], Mixture(settings={"conversation": 0.0}), one, seed=5)
    assert all(row < 100 for step in drawn(quiet, 200)[0] for row in step)


def test_dynamic_sampling_draws_for_what_is_missing() -> None:
    catalogue = Catalogue(prompts(), Mixture(), STEP, seed=2)
    rows, state = catalogue.draw(SamplerState())
    more, later = catalogue.draw(state, 1)
    assert (len(rows), len(more)) == (6, 3)
    assert later.draws == 2


UNEVEN = [
    Prompt(row=row, environment=name) for row, name in enumerate("a" * 30 + "b" * 7 + "c" * 2 + "d")
]  # 40 tasks of environments of very different sizes
SINGLE = Sampling(draw="tasks", tasks=8, rollouts=2, environments=3)


def test_tasks_drawn_one_by_one_have_the_same_chance_whatever_their_environment() -> None:
    draws = 4_000
    rows, state = drawn(Catalogue(UNEVEN, Mixture(), SINGLE, seed=4), draws)
    assert all(len(set(step)) == len(step) == 8 for step in rows)
    counts = Counter(row for step in rows for row in step)
    expected = draws * 8 / 40
    chi_square = sum((counts[row] - expected) ** 2 / expected for row in range(40)) / (1 - 8 / 40)
    assert chi_square < 39 + 5 * math.sqrt(2 * 39), "each task is in a step with a chance of 8 / 40"
    # Closed form: an environment of n tasks is left out of a step with C(40 - n, 8) / C(40, 8).
    there = sum(1 - math.comb(40 - size, 8) / math.comb(40, 8) for size in (30, 7, 2, 1))
    mean = sum(len({UNEVEN[row].environment for row in step}) for step in rows) / draws
    assert mean == pytest.approx(there, abs=0.05)
    alone = sum(sum(UNEVEN[row].environment == "b" for row in step) == 1 for step in rows) / draws
    assert alone == pytest.approx(7 * math.comb(33, 7) / math.comb(40, 8), abs=0.03), "one task of `b` in a step"
    stored = SamplerState.model_validate_json(state.model_dump_json())
    assert drawn(Catalogue(UNEVEN[::-1], Mixture(), SINGLE, seed=4), 2, stored) == drawn(
        Catalogue(UNEVEN, Mixture(), SINGLE, seed=4), 2, state
    )


def test_tasks_drawn_one_by_one_follow_weights_and_fill_up() -> None:
    mixture = Mixture(environments={"a": 0.0, "c": 3.0})
    one = SINGLE.model_copy(update={"tasks": 1})
    counts = Counter(UNEVEN[step[0]].environment for step in drawn(Catalogue(UNEVEN, mixture, one, seed=6), 4_000)[0])
    assert counts["a"] == 0
    assert counts["c"] / 4_000 == pytest.approx(2 * 3 / (7 + 2 * 3 + 1), abs=0.04)
    assert len(Catalogue(UNEVEN, Mixture(), SINGLE, seed=2).draw(SamplerState(draws=1), 3)[0]) == 3
    with pytest.raises(InputError, match="asks for 8 tasks, the dataset has 3 with a weight above 0"):
        Catalogue(UNEVEN, Mixture(environments={"a": 0.0, "b": 0.0}), SINGLE, seed=0)


def test_an_epoch_has_each_row_as_often_as_it_weighs() -> None:
    rows = prompts(4, 10)
    assert sorted(draw_epoch_rows(rows, Mixture(), 0, seed=1)) == list(range(40))
    assert draw_epoch_rows(rows, Mixture(), 0, seed=1) != draw_epoch_rows(rows, Mixture(), 1, seed=1)
    mixture = Mixture(environments={"e0": 2.0, "e1": 0.0, "e2": 0.3}, settings={"task": 1.0})
    epochs = [Counter(draw_epoch_rows(rows, mixture, epoch, seed=1)) for epoch in range(10)]
    assert all(one[row] == 2 for one in epochs for row in range(10))
    assert not any(one[row] for one in epochs for row in range(10, 20))
    assert all(sum(one[row] for one in epochs) == 3 for row in range(20, 30))  # 10 x 0.3
    assert all(one[row] == 1 for one in epochs for row in range(30, 40))
    with pytest.raises(InputError, match="no row of the dataset has a weight above 0"):
        draw_epoch_rows(rows[:10], Mixture(environments={"e0": 0.0}), 0, seed=1)


def test_too_little_data_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match="asks for 2 environments, the dataset has 1"):
        Catalogue(prompts(1), Mixture(), STEP, seed=0)
    with pytest.raises(InputError, match="asks for 3 tasks of an environment, 'e0' has 2; give it weight 0"):
        Catalogue(prompts(2, 2), Mixture(), STEP, seed=0)
