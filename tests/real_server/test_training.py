"""RL whose attempts vLLM itself draws: ids and log-probabilities of its replies, and each policy's adapter by its name.

All weights reach it as files. vLLM on the processor takes none over NCCL and cannot sleep, so neither is tried here.
"""

from __future__ import annotations

import json
import math
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
pytest.importorskip("peft")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from transformers import AutoModelForCausalLM  # noqa: E402

from synthesis.errors import InputError  # noqa: E402
from synthesis.llm import Endpoint  # noqa: E402
from tests.real_server.conftest import Server, serving  # noqa: E402
from tests.training import small  # noqa: E402
from tests.training.engines.test_engine_server import LORA  # noqa: E402
from tests.training.test_rl import CFG, closed, job, records  # noqa: E402
from training import rl  # noqa: E402
from training.attempts import list_tries, make_attempts  # noqa: E402
from training.config import Decoding, Optimiser, Reinforcement  # noqa: E402
from training.engines.served import ServedEngine  # noqa: E402
from training.job import VllmServer  # noqa: E402
from training.rewards import AttemptReward  # noqa: E402
from training.step_record import read_rollouts  # noqa: E402

OPTIONS = ("--max-model-len", "1024", "--dtype", "float32", "--enable-lora", "--max-loras", "2",
           "--max-lora-rank", "16", "--logprobs-mode", "processed_logprobs")  # fmt: skip
DECODING = Decoding(turn_tokens=24, trajectory_tokens=1000)


@pytest.fixture(scope="module")
def policy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a head of its own: one that shares the embeddings' weights is not loaded anew by vLLM 0.31 on a CPU."""
    folder = tmp_path_factory.mktemp("policy")
    small.saved(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, tie_word_embeddings=False)
    model.lm_head.weight = torch.nn.Parameter(model.get_input_embeddings().weight.detach().clone())
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def policy_server(vllm_python: str, policy_folder: Path) -> Iterator[Server]:
    with serving(vllm_python, policy_folder, OPTIONS, names=("policy",), key="",
                 VLLM_ALLOW_RUNTIME_LORA_UPDATING="1", VLLM_SERVER_DEV_MODE="1") as running:  # fmt: skip
        yield running


@pytest.fixture
def rewarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an untrained model does, its attempts earn different rewards: each step changes the weights."""
    monkeypatch.setattr(
        "training.step.score_attempt",
        lambda attempt, *_: AttemptReward(reward=attempt.turns[0].completion_ids[0] % 5 / 4),
    )


def trained(folder: Path, cfg: Reinforcement, server: Server) -> dict[int, dict[str, float]]:
    """Values by step of a whole job of three steps."""
    one = job(folder / "job", cfg, engine="vllm_server", server=VllmServer(url=server.url))
    ended, _ = rl.train_reinforcement(one)
    closed(one)
    assert ended == "done"
    told = records(one.folder)
    values = {record.step: record.values for record in told if record.kind == "values" and "reward" in record.values}
    assert sorted(values) == [1, 2, 3]
    assert all(step["grad_norm"] > 0 for step in values.values())
    assert not any(math.isnan(step["sampling_gap"]) for step in values.values())
    return values


def logs_of(ids: list[int], own: list[int], temperature: float) -> list[float]:
    """What this process's own model gives the tokens that were drawn."""
    with torch.no_grad():
        logits = small.model()(torch.tensor([ids])).logits[0, :-1].float() / temperature
    logs = torch.log_softmax(logits, -1)
    start = len(ids) - len(own)
    return [logs[start + place - 1, ids[start + place]].item() for place, bit in enumerate(own) if bit]


def test_ids_and_log_probabilities_are_those_of_the_model(policy_server: Server) -> None:
    endpoint = Endpoint(name="vllm", base_url=policy_server.url, max_retries=0)
    engine = ServedEngine(endpoint, "policy", ends={small.tokenizer().eos_token_id}, temperature=0.8)
    made = make_attempts(small.table(), engine, list_tries(small.rows()[:4], 2), turns=3, decoding=DECODING, seed="s")
    assert not [one.attempt.note for one in made if one.attempt.ending == "lost"]
    for one in made:
        trace = one.trace
        drawn = [log for log, bit in zip(trace.logprobs, trace.own, strict=True) if bit]
        expected = logs_of([*trace.prompt, *trace.completion], trace.own, 0.8)
        assert sum(trace.own) == sum(len(turn.completion_ids) for turn in one.attempt.turns)
        assert max(abs(a - b) for a, b in zip(drawn, expected, strict=True)) < 1e-3
    assert len({tuple(one.trace.completion) for one in made}) > 4


def test_a_context_that_the_model_cannot_hold_ends_the_attempt_as_too_long(policy_server: Server) -> None:
    endpoint = Endpoint(name="vllm", base_url=policy_server.url, max_retries=0)
    engine = ServedEngine(endpoint, "policy", ends={small.tokenizer().eos_token_id}, temperature=1.0)
    long = DECODING.model_copy(update={"turn_tokens": 900, "trajectory_tokens": 100_000})
    (one,) = make_attempts(small.table(), engine, list_tries(small.rows()[:1], 1), turns=2, decoding=long, seed="s")
    assert one.attempt.ending == "too_long", one.attempt.note


def test_each_policy_is_an_adapter_and_its_draws_have_the_trainers_probabilities(
    policy_server: Server, policy_folder: Path, tmp_path: Path, rewarded: None
) -> None:
    (tmp_path / "model").symlink_to(policy_folder)
    values = trained(tmp_path, LORA, policy_server)
    # Each step's weights arrived: at these rates another policy's gap is a hundred times as large.
    assert max(step["sampling_gap"] for step in values.values()) < 1e-3
    for step in values:
        lines = read_rollouts(tmp_path / f"job/rollouts/step-{step:06d}.jsonl.gz")
        assert {line["policy_step"] for line in lines} == {step - 1}
    with urllib.request.urlopen(f"{policy_server.url}/models", timeout=10) as reply:
        names = [model["id"] for model in json.load(reply)["data"]]
    assert names[0] == "policy"
    assert len(names) == 2, "earlier policies are unloaded"


def test_all_weights_reach_it_as_files_between_steps(
    policy_server: Server, policy_folder: Path, tmp_path: Path, rewarded: None
) -> None:
    (tmp_path / "model").symlink_to(policy_folder)
    full = CFG.model_copy(
        update={"steps": 3, "optimiser": Optimiser(learning_rate=3e-3, micro_batch=16), "evaluation": LORA.evaluation}
    )
    values = trained(tmp_path, full, policy_server)
    assert max(step["sampling_gap"] for step in values.values()) < 1e-3


def test_a_server_that_cannot_sleep_is_refused_with_what_to_do(
    policy_server: Server, policy_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "model").symlink_to(policy_folder)
    one = job(tmp_path / "job", LORA, engine="vllm_server", server=VllmServer(url=policy_server.url, sleep=True))
    with pytest.raises(InputError, match="--enable-sleep-mode"):
        rl.train_reinforcement(one)
    closed(one)
