"""RL whose attempts a vLLM server draws: adapters reach it between steps, it sleeps meanwhile, or runs ahead."""

from __future__ import annotations

import itertools
import os

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
pytest.importorskip("peft")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from synthesis.errors import InfrastructureError, InputError  # noqa: E402
from tests.training import small  # noqa: E402
from tests.training.engines.vllm_like import VllmLike, served  # noqa: E402
from tests.training.test_rl import CFG, closed, job, records  # noqa: E402
from training import rl  # noqa: E402
from training.config import Attempts, Correction, Lora, Optimiser  # noqa: E402
from training.engines.choice import is_copied_by_trl, require_engine  # noqa: E402
from training.job import VllmServer  # noqa: E402
from training.rewards import AttemptReward  # noqa: E402
from training.step_record import read_rollouts  # noqa: E402

LORA = CFG.model_copy(
    update={
        "steps": 3,
        "tuning": Lora(rank=4),
        "optimiser": Optimiser(learning_rate=3e-2, micro_batch=16),
        "evaluation": CFG.evaluation.model_copy(update={"every": 0}),
        "correction": Correction(alarm_gap=1e-3),
    }
)


@pytest.fixture(autouse=True)
def uneven_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an untrained model does, its attempts earn different rewards: each step changes the weights."""
    monkeypatch.setattr(
        "training.step.score_attempt",
        lambda attempt, *_: AttemptReward(reward=attempt.turns[0].completion_ids[0] % 5 / 4),
    )


def trained(tmp_path, cfg, **server):
    """(the server, values by step, events, policy steps of each step's rollouts) of a whole job."""
    known = VllmLike(small.saved(tmp_path / "model"), small.tokenizer().pad_token_id)
    with served(known) as url:
        one = job(tmp_path / "job", cfg, engine="vllm_server", server=VllmServer(url=url, **server))
        ended, _ = rl.train_reinforcement(one)
    closed(one)
    assert ended == "done"
    told = records(one.folder)
    values = {record.step: record.values for record in told if record.kind == "values" and "reward" in record.values}
    events = [record for record in told if record.kind == "event"]
    drawn = {step: read_rollouts(one.folder / f"rollouts/step-{step:06d}.jsonl.gz") for step in values}
    return known, values, events, drawn


def test_each_policy_reaches_the_server_as_an_adapter_of_its_own_and_the_server_sleeps(tmp_path) -> None:
    known, values, events, drawn = trained(tmp_path, LORA, sleep=True)
    paths = [path for path, _ in known.log]
    loaded = [name for path, name in known.log if path == "/v1/load_lora_adapter"]
    assert [name.rpartition("-")[2] for name in loaded] == ["0", "1", "2", "3"]  # the last one is evaluated
    assert [name for path, name in known.log if path == "/v1/completions"] == [
        loaded[0], loaded[0], loaded[1], loaded[2], loaded[3]
    ]  # fmt: skip
    assert [name for path, name in known.log if path == "/v1/unload_lora_adapter"] == loaded[:-1]
    # Asleep from the start and whenever the model learns, woken before anything is asked of it.
    assert paths[0] == "/sleep"
    assert {before for before, path in itertools.pairwise(paths) if path == "/sleep"} == {"/v1/completions"}
    # What was drawn has the probability that the trainer sees: the weights of each step arrived, and they differ.
    assert all(one["grad_norm"] > 0 for one in values.values())
    assert max(one["sampling_gap"] for one in values.values()) < 1e-4
    assert {one["policy_age"] for one in values.values()} == {0.0}
    assert not any(event.data.get("alert") for event in events)
    for step, lines in drawn.items():
        assert {line["policy_step"] for line in lines} == {step - 1}
        assert all(line["drawn"] == [[step - 1, line["tokens"]]] for line in lines)


def test_a_step_ahead_is_one_policy_behind_and_its_gap_is_corrected_and_told(tmp_path) -> None:
    cfg = LORA.model_copy(update={"attempts": Attempts(at_once=16, deadline_s=30, ahead=True)})
    known, values, events, drawn = trained(tmp_path, cfg)
    assert [values[step]["policy_age"] for step in (1, 2, 3)] == [0.0, 1.0, 1.0]
    assert [{line["policy_step"] for line in drawn[step]} for step in (1, 2, 3)] == [{0}, {0}, {1}]
    assert values[1]["sampling_gap"] < 1e-4 < 1e-3 < values[3]["sampling_gap"]
    alarms = [event for event in events if event.data.get("alert") == "sampling_gap"]
    assert 3 in {event.step for event in alarms}
    assert 1 not in {event.step for event in alarms}
    assert alarms[-1].data["gap"] == pytest.approx(values[3]["sampling_gap"])
    assert "/sleep" not in {path for path, _ in known.log}


@pytest.mark.parametrize(
    ("refuses", "kind", "words"),
    [
        ({"/v1/load_lora_adapter": 404}, InputError, "VLLM_ALLOW_RUNTIME_LORA_UPDATING"),
        ({"/v1/load_lora_adapter": 400}, InfrastructureError, "--max-loras 2"),
        ({"/server_info": 404}, InputError, "--enable-sleep-mode"),
    ],
)
def test_a_server_that_cannot_is_told_apart(tmp_path, refuses, kind, words: str) -> None:
    known = VllmLike(small.saved(tmp_path / "model"), small.tokenizer().pad_token_id, refuses)
    with served(known) as url:
        one = job(tmp_path / "job", LORA, engine="vllm_server", server=VllmServer(url=f"{url}/v1", sleep=True))
        with pytest.raises(kind, match=words):
            rl.train_reinforcement(one)
    closed(one)


def test_a_server_that_only_says_that_it_sleeps_is_refused(tmp_path) -> None:
    """Without --enable-sleep-mode vLLM answers `/sleep` with 200 and keeps its memory."""
    known = VllmLike(small.saved(tmp_path / "model"), small.tokenizer().pad_token_id)
    known.can_sleep = False
    with served(known) as url:
        one = job(tmp_path / "job", LORA, engine="vllm_server", server=VllmServer(url=url, sleep=True))
        with pytest.raises(InputError, match="--enable-sleep-mode"):
            rl.train_reinforcement(one)
    closed(one)
    assert "/sleep" not in {path for path, _ in known.log}


SERVER = VllmServer(url="http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("engine", "server", "lora", "ahead", "words"),
    [
        ("vllm", None, False, False, "vllm is not installed"),
        ("vllm_server", None, True, False, "--vllm-server"),
        ("transformers", None, True, True, "GPUs of its own"),
        ("vllm_server", SERVER.model_copy(update={"sleep": True}), True, True, "GPUs of its own"),
    ],
)
def test_engines_that_cannot_be_used_are_refused_with_a_reason(engine, server, lora, ahead, words: str) -> None:
    attempts = Attempts(ahead=ahead)
    cfg = (LORA if lora else CFG).model_copy(update={"attempts": attempts})
    with pytest.raises(InputError, match=words):
        require_engine(cfg, engine, server)


def test_trl_copies_weights_to_servers_on_gpus_of_their_own_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_copied_by_trl(CFG, "vllm_server", SERVER), "no GPU and no vLLM here"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert is_copied_by_trl(CFG, "vllm_server", SERVER)
    assert is_copied_by_trl(CFG, "vllm", None)
    assert not is_copied_by_trl(CFG, "vllm_server", SERVER.model_copy(update={"sleep": True}))
    assert not is_copied_by_trl(LORA, "vllm_server", SERVER)
    assert not is_copied_by_trl(CFG, "transformers", None)


@pytest.mark.parametrize("sleep", [True, False])
def test_all_weights_reach_a_server_as_files(tmp_path, sleep: bool) -> None:
    full = CFG.model_copy(
        update={"steps": 3, "optimiser": Optimiser(learning_rate=3e-3, micro_batch=16), "evaluation": LORA.evaluation}
    )
    known, values, _, _ = trained(tmp_path, full, sleep=sleep)
    loads = [said for path, said in known.log if path == "/collective_rpc"]
    assert [path.rpartition("-")[2] for path in loads] == ["0", "1", "2", "3"]
    paths = [path for path, _ in known.log]
    assert paths.count("/reset_prefix_cache") == 4
    assert ("/sleep" in paths) == sleep
    assert all(one["grad_norm"] > 0 for one in values.values())
    assert max(one["sampling_gap"] for one in values.values()) < 1e-4
    assert len(list((tmp_path / "job" / "weights").iterdir())) == 1


def test_a_server_that_takes_no_weights_is_told_what_it_lacks(tmp_path) -> None:
    known = VllmLike(small.saved(tmp_path / "model"), small.tokenizer().pad_token_id, {"/collective_rpc": 404})
    with served(known) as url:
        one = job(tmp_path / "job", CFG, engine="vllm_server", server=VllmServer(url=url))
        with pytest.raises(InputError, match="VLLM_SERVER_DEV_MODE=1"):
            rl.train_reinforcement(one)
    closed(one)
