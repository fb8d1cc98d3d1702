"""The trainer's seams with TRL: what is handed to the loss, against an independent computation."""

from __future__ import annotations

import json
import os

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import datasets  # noqa: E402
import numpy as np  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

from tests.training import private_parts, small  # noqa: E402
from tests.training.test_step import CFG, ROWS, attempt, attempting, catalogue  # noqa: E402
from training.attempts import TaskAttempt  # noqa: E402
from training.config import Advantage, Correction, Kl, Loss, Overlong  # noqa: E402
from training.policy import Diverged, Trace  # noqa: E402
from training.sampler import SamplerState  # noqa: E402
from training.step import Ranks, make_step  # noqa: E402
from training.trainer import AgentTrainer  # noqa: E402


def test_trls_private_methods_are_those_that_this_was_written_against() -> None:
    """Read what changed in TRL, mend `training/trainer.py`, then run `python -m tests.training.private_parts`."""
    assert private_parts.found() == json.loads(private_parts.KNOWN.read_text(encoding="utf-8"))


def traced(reward_of):
    """Attempts of random tokens: a prompt, two turns and what was read in between; one lost attempt has none."""

    def make(work, seed):
        made = []
        for row, number in work:
            reward = reward_of(row, number)
            tried = attempt(row, number, reward)
            dice = np.random.default_rng(abs(hash((row.id, number))) % 2**32)
            ids = dice.integers(10, 200, 12 + 28 * number).tolist()
            own = [1] * 4 + [0] * 3 + [1] * (len(ids) - 7)
            trace = Trace(prompt=[5, 6, 7], completion=ids, logprobs=[-2.0] * len(ids), own=own)
            made.append(TaskAttempt(row, number, tried.attempt, Trace() if reward is None else trace))
        return made

    return make


def trainer(tmp_path, cfg, make, micro=8) -> AgentTrainer:
    def roll(one: AgentTrainer):
        return make_step(cfg, catalogue(cfg), ROWS, SamplerState(), make, Ranks(), lambda: False)

    reference = cfg.kl.coefficient and (cfg.kl.place != "loss" or cfg.kl.to == "reference")
    args = GRPOConfig(
        output_dir=str(tmp_path / "out"), per_device_train_batch_size=micro, gradient_accumulation_steps=16 // micro,
        num_generations=2, num_iterations=cfg.loss.updates, max_steps=cfg.steps, learning_rate=1e-3,
        lr_scheduler_type="constant", beta=cfg.kl.coefficient if reference else 0.0, use_cpu=True, bf16=False,
        gradient_checkpointing=False, report_to="none", disable_tqdm=True, save_strategy="no", shuffle_dataset=False,
        logging_steps=1, disable_dropout=True, max_grad_norm=1e9,
    )  # fmt: skip
    model = small.model()
    model.config._name_or_path = small.saved(tmp_path / "model")
    return AgentTrainer(
        cfg, roll, args, model=model, processing_class=small.tokenizer(),
        train_dataset=datasets.Dataset.from_dict({"prompt": [""] * cfg.sampling.tasks}),
    )  # fmt: skip


def graded(row, number) -> float | None:
    if row.environment == "lamps":
        return None if number else 0.5
    return (len(row.id) + 3 * number + ord(row.id[-1])) % 5 / 4


@pytest.mark.parametrize("form", ["trajectory", "grpo", "dapo"])
@pytest.mark.parametrize("kind", ["group", "environment"])
def test_gradient_is_that_of_the_papers_formula(tmp_path, form: str, kind: str) -> None:
    """Whole step, four micro batches, a lost attempt in each group of lamps: A and the loss worked out with numpy and
    a plain forward pass over each attempt by itself."""
    cfg = CFG.model_copy(
        update={"steps": 1, "advantage": Advantage(kind=kind), "loss": Loss(form=form, clip_high=0.28),
                "correction": Correction(kind="none"),
                "limits": CFG.limits.model_copy(update={"infra_error_share": 1.0})}
    )  # fmt: skip
    one = trainer(tmp_path, cfg, traced(graded), micro=4)
    before = {name: value.detach().clone() for name, value in one.model.named_parameters()}
    caught = caught_gradients(one)
    model = small.model()
    model.load_state_dict(before, strict=False)
    expected_loss(one.told.step.judged, model, form, kind).backward()
    for name, value in model.named_parameters():
        assert torch.allclose(caught[name], value.grad, atol=2e-5), name


def caught_gradients(one: AgentTrainer) -> dict:
    """Gradients of the first update, accumulated and not clipped; the update itself is left out."""
    caught: list = []
    one.model.train()
    one.create_optimizer()
    one.optimizer.step = lambda *a, **k: caught.append(
        {name: value.grad.detach().clone() for name, value in one.model.named_parameters() if value.grad is not None}
    )
    one.train()
    return caught[0]


@pytest.mark.parametrize("form", ["gspo", "grpo", "dapo", "bnpo", "dr_grpo", "cispo"])
def test_accumulated_gradient_is_that_of_trls_own_loss(tmp_path, form: str, monkeypatch) -> None:
    """Four micro batches of a step in which every attempt counts: the same trainer with TRL's `_compute_loss`."""
    changed = {"steps": 1, "loss": Loss(form=form, clip_high=0.28), "correction": Correction(kind="none")}
    cfg = CFG.model_copy(update=changed)

    def all_count(row, number) -> float:
        return (len(row.id) + 3 * number + ord(row.id[-1])) % 5 / 4

    ours = caught_gradients(trainer(tmp_path, cfg, traced(all_count), micro=4))
    one = trainer(tmp_path, cfg, traced(all_count), micro=4)
    one.loss_type = one.args.loss_type = "grpo" if form == "gspo" else form
    one.importance_sampling_level = "sequence" if form == "gspo" else "token"
    one.epsilon_low, one.epsilon_high = 0.2, 1.28 if form == "cispo" else 0.28
    one.max_completion_length = cfg.decoding.trajectory_tokens
    monkeypatch.setattr(AgentTrainer, "_compute_loss", GRPOTrainer._compute_loss)
    theirs = caught_gradients(one)
    largest = max(value.abs().max().item() for value in theirs.values())
    assert largest > 1e-6
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-3 * largest) for name in theirs)


def expected_loss(judged, model, form, kind):
    rewards = np.array([np.nan if score.reward is None else score.reward for _, score in judged])
    names = np.array([tried.row.environment for tried, _ in judged])
    terms, tokens, count = [], 0, 0
    for place, (tried, _) in enumerate(judged):
        if np.isnan(rewards[place]):
            continue
        group = rewards[place // 2 * 2 : place // 2 * 2 + 2]
        group = group[~np.isnan(group)]
        same = rewards[names == names[place]]
        same = same[~np.isnan(same)]
        spread = group if kind == "group" else same
        deviation = spread.std(ddof=1) if len(spread) > 1 else 0.0
        advantage = (rewards[place] - group.mean()) / (deviation + 1e-4) if deviation else 0.0
        ids = torch.tensor([[*tried.trace.prompt, *tried.trace.completion]])
        logs = torch.log_softmax(model(ids).logits[0, :-1].float(), -1)
        logs = logs.gather(-1, ids[0, 1:, None])[2:, 0]
        own = torch.tensor(tried.trace.own, dtype=torch.bool)
        ratio = logs[own] - logs[own].detach()
        count, tokens = count + 1, tokens + int(own.sum())
        if form == "trajectory":
            terms.append(ratio.sum().exp() * advantage)
        else:
            terms.append((ratio.exp() * advantage).sum() / (own.sum() if form == "grpo" else 1))
    return -sum(terms) / (tokens if form == "dapo" else count)


@pytest.mark.parametrize(
    "kl",
    [Kl(coefficient=0.1), Kl(coefficient=0.1, to="old"), Kl(coefficient=0.1, place="reward", estimator="k1")],
)
def test_second_update_uses_old_log_probabilities_and_the_penalty(tmp_path, kl: Kl) -> None:
    """Two updates of the same attempts: the first has ratio 1 and no divergence, the second has both."""
    cfg = CFG.model_copy(update={"steps": 2, "loss": Loss(form="trajectory", updates=2), "kl": kl})
    one = trainer(tmp_path, cfg, traced(lambda row, number: float(number)))
    seen: list = []
    compute = one._compute_loss

    def watched(model, inputs):
        loss = compute(model, inputs)
        seen.append((inputs["old_per_token_logps"].clone(), one._logps(model, inputs)[0].detach(), inputs["tool_mask"]))
        return loss

    one._compute_loss = watched
    one.train()
    assert len(seen) == 4
    gaps = [((new - old) * mask).abs().max().item() for old, new, mask in seen]
    assert max(gaps[:2]) < 1e-4 < min(gaps[2:])
    assert one.told.divergence == pytest.approx(0.0, abs=1e-4), "the reference is the policy that made the attempts"


def test_long_attempts_pay_before_advantages_are_taken_and_their_rewards_stay(tmp_path) -> None:
    """Attempts of 15 and 43 tokens earn the same; with a limit of 43 and a buffer of 28 the longer one pays all."""
    cfg = CFG.model_copy(
        update={"steps": 1, "advantage": Advantage(kind="mean"), "overlong": Overlong(buffer=28),
                "decoding": CFG.decoding.model_copy(update={"trajectory_tokens": 43})}
    )  # fmt: skip
    one = trainer(tmp_path, cfg, traced(lambda row, number: 0.5))
    one.train()
    assert one.told.advantages == pytest.approx([0.5, -0.5] * (len(one.told.advantages) // 2))
    assert {score.reward for _, score in one.told.step.judged} == {0.5}


def test_reward_to_go_gives_each_token_its_own(tmp_path) -> None:
    cfg = CFG.model_copy(
        update={"steps": 1, "advantage": Advantage(kind="global"), "loss": Loss(form="dapo"),
                "kl": Kl(coefficient=0.5, place="reward_to_go", estimator="k1")}
    )  # fmt: skip
    one = trainer(tmp_path, cfg, traced(lambda row, number: float(number)))
    seen: list = []
    compute = one._compute_loss
    one._compute_loss = lambda model, inputs: seen.append(inputs) or compute(model, inputs)
    one.train()
    assert seen[0]["advantages"].shape == seen[0]["completion_ids"].shape
    every = torch.cat([inputs["advantages"][inputs["tool_mask"].bool()] for inputs in seen]).double()
    assert every.mean().item() == pytest.approx(0, abs=1e-5)
    assert every.std().item() == pytest.approx(1, abs=1e-2)


def test_loss_that_is_no_number_ends_the_job(tmp_path) -> None:
    cfg = CFG.model_copy(update={"steps": 1})
    one = trainer(tmp_path, cfg, traced(lambda row, number: float(number)))
    with torch.no_grad():
        one.model.model.norm.weight.fill_(float("nan"))
    with pytest.raises(Diverged, match="step 1 is no number"):
        one.train()


def test_step_in_which_nothing_counts_changes_nothing(tmp_path) -> None:
    cfg = CFG.model_copy(
        update={"steps": 1, "limits": CFG.limits.model_copy(update={"infra_error_share": 1.0})},
    )
    one = trainer(tmp_path, cfg, attempting(lambda row, number, seed: None))
    before = one.model.model.norm.weight.detach().clone()
    one.train()
    assert torch.equal(before, one.model.model.norm.weight)
