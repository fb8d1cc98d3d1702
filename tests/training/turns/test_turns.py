"""Attempts that are a sample a turn: what each turn is drawn behind, and that they count as attempts in the loss."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import numpy as np  # noqa: E402
from trl import chat_template_utils as known  # noqa: E402

from synthesis.contracts import Message  # noqa: E402
from tests.training import small, test_rl  # noqa: E402
from tests.training.test_step import CFG, attempt  # noqa: E402
from tests.training.test_templates import dressed  # noqa: E402
from tests.training.test_trainer import caught_gradients, trainer  # noqa: E402
from training import rl, sft  # noqa: E402
from training.attempts import Table, TaskAttempt, make_attempts  # noqa: E402
from training.config import Advantage, Attempts, Constant, Correction, Decoding, Kl, Loss, Supervised  # noqa: E402
from training.dataset import TrajectoryRow  # noqa: E402
from training.objective.rows import select_attempt_values, sum_by_attempt, sum_later_samples  # noqa: E402
from training.policy import Generation, Trace  # noqa: E402
from training.rewards import AttemptReward  # noqa: E402
from training.step import NOBODY, Ranks, Samples, TrainingStep  # noqa: E402
from training.templates import prepare_template, serialize_messages, serialize_tools  # noqa: E402
from training.turn_policy import TurnTrace  # noqa: E402


@pytest.fixture(scope="module")
def qwen():
    tokenizer = dressed(known.qwen3_chat_template)
    prepare_template(tokenizer)
    return tokenizer


def attempts(tokenizer, script: dict, work, decoding: Decoding | None = None) -> list[TaskAttempt]:
    table = Table(small.get_default_sandbox(), tokenizer, Attempts(at_once=8, deadline_s=600), thinking="stripped")
    return make_attempts(
        table, small.ScriptedEngine(script), work, turns=5,
        decoding=decoding or Decoding(turn_tokens=96, trajectory_tokens=2048), seed="s",
    )  # fmt: skip


def thoughtful(tokenizer, said: Message, number: int) -> list[int]:
    return [*tokenizer.encode(f"<think>\nThought {number}.\n</think>\n\n"), *small.written(said)]


def test_samples_of_rl_are_those_of_sft_token_for_token(qwen) -> None:
    """An attempt with reasoning in each turn, and the same conversation as a row of `mask_history`, stripped."""
    task, row = small.tasks()[0], small.rows()[0]
    script = [thoughtful(qwen, said, number) for number, said in enumerate(small.solution(task))]
    (tried,) = attempts(qwen, {row.id: script}, [(row, 0)])
    assert tried.attempt.outcome == "solved"
    drawn = tried.trace.samples()
    assert len(drawn) == len(tried.attempt.turns) == len(script) > 1
    told = serialize_messages(tried.attempt.messages)
    lesson = TrajectoryRow.model_validate(
        {"id": "r", "messages": told, "tools": serialize_tools(tried.row.rollout.program.tools)}
    )
    learnt, _ = sft.build_samples(qwen, [lesson], Supervised(samples="mask_history", thinking="stripped"))
    for ours, theirs in zip(drawn, learnt, strict=True):
        assert [*ours.prompt, *ours.completion] == theirs.input_ids
        assert [label == sft.IGNORED for label in theirs.labels] == [True] * len(ours.prompt) + [
            not own for own in ours.own
        ]
        assert "think>" not in qwen.decode(ours.prompt)
        assert qwen.decode(ours.completion).startswith("<think>\nThought ")
    assert sum(tried.trace.own) == sum(map(len, script)), "numbers of an attempt count what the model drew"


def test_turn_that_cannot_be_read_stays_in_the_history_without_its_reasoning(qwen) -> None:
    row = small.rows()[0]
    broken = '<tool_call>\n{"name": "next_free", "arguments": {"doctor": \n</tool_call>'
    ids = qwen.encode(f"<think>\nHm.\n</think>\n\n{broken}<|im_end|>")
    cut = qwen.encode("<think>\nOn and on")
    (tried,) = attempts(qwen, {row.id: [ids, small.says("Done.")]}, [(row, 0)])
    after = qwen.decode(tried.trace.samples()[1].prompt)
    assert f"<|im_start|>assistant\n{broken}<|im_end|>" in after
    assert "think>" not in after
    limit = Decoding(turn_tokens=len(cut), trajectory_tokens=2048)
    (tried,) = attempts(qwen, {row.id: [cut, small.says("Done.")]}, [(row, 0)], limit)
    first, second = tried.trace.samples()
    assert first.completion == cut
    assert second.prompt[: len(first.prompt)] == first.prompt


def test_sums_over_an_attempts_samples_by_hand() -> None:
    """Attempts 0, 2 and 3 have two, one and three samples, the seventh fills up; attempt 1 has none."""
    places = [0, 0, 2, 3, 3, 3, NOBODY]
    values = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
    assert sum_by_attempt(values, places, 4).tolist() == [3, 0, 4, 56]
    assert sum_later_samples(values, places).tolist() == [2, 0, 0, 48, 32, 0, 0]
    assert select_attempt_values(torch.tensor([5.0, 6.0, 7.0, 8.0]), torch.tensor(places)).tolist() == [
        5,
        5,
        7,
        8,
        8,
        8,
        0,
    ]
    assert select_attempt_values(torch.tensor([True, True, False, True]), torch.tensor([2, 3, NOBODY])).tolist() == [
        False, True, False
    ]  # fmt: skip


def turns_of(row, number: int) -> TurnTrace:
    """`number` + 1 turns of random tokens, each behind a longer history; the same for the same row and number."""
    dice = np.random.default_rng([*row.id.encode(), number])
    trace = TurnTrace(prompt=[5, 6, 7], history=[5, 6, 7])
    for turn in range(number + 1):
        ids = dice.integers(10, 200, 4 + 9 * turn).tolist()
        trace.add_generated(Generation(tuple(ids), (-2.0,) * len(ids), cut=False))
        trace.history += dice.integers(10, 200, 6).tolist()
    return trace


def graded(row, number: int) -> float | None:
    if row.environment == "lamps":
        return None if number else 0.5
    return (len(row.id) + 3 * number + ord(row.id[-1])) % 5 / 4


def making(work, seed: str = "") -> list[TaskAttempt]:
    made = []
    for row, number in work:
        reward = graded(row, number)
        trace = TurnTrace() if reward is None else turns_of(row, number)
        made.append(TaskAttempt(row, number, attempt(row, number, reward).attempt, trace))
    return made


def test_step_becomes_samples_that_ranks_share_evenly() -> None:
    rows = [row for row in small.rows() if row.environment != "lamps"][:2]
    judged = [(one, None) for one in making([(row, number) for row in rows for number in (0, 1)])]
    step = TrainingStep(judged, 2, [0, 1, 2, 3], 1, None, 0.0, [[0, 1], [2, 3]])
    first, second = (step.samples(Ranks(rank, 2), 2) for rank in (0, 1))
    assert (first.places, second.places) == ([0, 1, 1, NOBODY], [2, 3, 3, NOBODY])
    assert first.traces[2].prompt == judged[1][0].trace.history[:9]
    both = Samples(first.traces, first.places + second.places)
    assert [both.places[both.own(Ranks(rank, 2))] for rank in (0, 1)] == [first.places, second.places]
    beside_more = step.samples(Ranks(0, 2, lambda items: [*items, 5]), 2)
    assert len(beside_more.traces) == 6, "another rank has five sequences, and micro batches are of two"
    nothing = TrainingStep([(TaskAttempt(rows[0], 0, None, TurnTrace()), None)], 1, [0], 1, None, 0.0, [[0]])
    assert nothing.samples(Ranks(), 2) == Samples([Trace(), Trace()], [NOBODY, NOBODY])


STRIPPED = CFG.model_copy(
    update={
        "steps": 1,
        "thinking": "stripped",
        "limits": CFG.limits.model_copy(update={"infra_error_share": 1.0}),
        "correction": Correction(kind="none"),
    }
)


@pytest.mark.parametrize("form", ["grpo", "dapo", "dr_grpo"])
def test_gradient_counts_attempts_and_not_their_samples(tmp_path, form: str) -> None:
    """Whole step in four micro batches, parts of them one after the other, a lost attempt in each group of lamps:
    advantages of attempts, by numpy, and a plain forward pass over each turn behind its own history."""
    cfg = STRIPPED.model_copy(update={"advantage": Advantage(kind="environment"), "loss": Loss(form=form)})
    one = trainer(tmp_path, cfg, making, micro=4)
    before = {name: value.detach().clone() for name, value in one.model.named_parameters()}
    caught = caught_gradients(one)
    model = small.model()
    model.load_state_dict(before, strict=False)
    expected_loss(one.told.step.judged, model, form, cfg.decoding.trajectory_tokens).backward()
    largest = max(value.grad.abs().max().item() for value in model.parameters())
    for name, value in model.named_parameters():
        assert torch.allclose(caught[name], value.grad, atol=1e-3 * largest), name


def expected_loss(judged, model, form: str, longest: int):
    rewards = np.array([np.nan if score.reward is None else score.reward for _, score in judged])
    names = np.array([tried.row.environment for tried, _ in judged])
    terms, tokens, count = [], 0, 0
    for place, (tried, _) in enumerate(judged):
        if np.isnan(rewards[place]):
            continue
        count += 1
        group = rewards[place // 2 * 2 : place // 2 * 2 + 2]
        same = rewards[(names == names[place]) & ~np.isnan(rewards)]
        spread = same.std(ddof=1)
        advantage = (rewards[place] - np.nanmean(group)) / (spread + 1e-4) if spread else 0.0
        drawn, own = [], 0
        for start, made in tried.trace.turns:
            ids = torch.tensor([[*tried.trace.history[:start], *made.ids]])
            logs = torch.log_softmax(model(ids).logits[0, :-1].float(), -1).gather(-1, ids[0, 1:, None])[start - 1 :, 0]
            drawn.append(((logs - logs.detach()).exp() * advantage).sum())
            own += len(made.ids)
        tokens += own
        terms.append(sum(drawn) / (own if form == "grpo" else 1))
    return -sum(terms) / {"grpo": count, "dapo": tokens, "dr_grpo": count * longest}[form]


def test_reward_to_go_runs_over_the_turns_that_come_later(tmp_path, monkeypatch) -> None:
    """With a divergence of 0.1 in each token: G_t = R - 0.5 x 0.1 x (the attempt's tokens from t on), whitened."""
    monkeypatch.setattr("training.trainer.estimate_token_kl", lambda logps, *_: torch.full_like(logps, 0.1))
    kl = Kl(coefficient=0.5, place="reward_to_go", estimator="k1")
    cfg = STRIPPED.model_copy(update={"advantage": Advantage(kind="global"), "loss": Loss(form="dapo"), "kl": kl})
    one = trainer(tmp_path, cfg, making)
    seen: list = []
    compute = one._compute_loss
    one._compute_loss = lambda model, inputs: seen.append(inputs) or compute(model, inputs)
    one.train()
    returns, first = [], {}
    for tried, score in one.told.step.judged:
        if score.reward is None:
            continue
        total = left = sum(len(made.ids) for _, made in tried.trace.turns)
        for _, made in tried.trace.turns:
            first[made.ids] = len(returns)
            for _ in made.ids:
                returns.append(score.reward - 0.5 * 0.1 * left)
                left -= 1
        assert left == 0 < total
    white = (np.array(returns) - np.mean(returns)) / (np.std(returns, ddof=1) + 1e-4)
    compared = 0
    for inputs in seen:
        for ids, mask, given in zip(inputs["completion_ids"], inputs["tool_mask"], inputs["advantages"], strict=True):
            drawn = tuple(ids[mask.bool()].tolist())
            if drawn:
                at = first[drawn]
                assert given[mask.bool()].tolist() == pytest.approx(white[at : at + len(drawn)].tolist(), abs=1e-4)
                compared += len(drawn)
    assert compared == len(returns)


def test_job_learns_from_what_it_drew_turn_by_turn(tmp_path, monkeypatch) -> None:
    """Two passes over attempts of two turns: what was drawn has the probability that the trainer sees, and the first
    pass changes the policy. What an untrained model happens to write earns something here."""
    first_token = lambda attempt, *_: AttemptReward(reward=attempt.turns[0].completion_ids[0] % 5 / 4)  # noqa: E731
    monkeypatch.setattr("training.step.score_attempt", first_token)
    changed = {"steps": 2, "thinking": "stripped", "horizon": Constant(turns=2), "loss": Loss(updates=2)}
    one = test_rl.job(tmp_path / "job", test_rl.CFG.model_copy(update=changed))
    one.table, one.held_out = replace(one.table, thinking="stripped"), ()
    ended, _ = rl.train_reinforcement(one)
    one.writer.close()
    assert ended == "done"
    first, second = (r.values for r in test_rl.records(one.folder) if r.kind == "values" and "loss" in r.values)
    assert max(first["sampling_gap"], second["sampling_gap"]) < 1e-4, "of the policy that drew, in both passes"
    assert abs(first["entropy"] - second["entropy"]) > 1e-6
    assert first["turns"] > 1
