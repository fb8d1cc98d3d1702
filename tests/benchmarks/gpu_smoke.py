"""Whether a GPU trains, resumes and serves, and how fast: SFT, RL with vLLM, a checkpoint gone on from, a chat server.

    python -m tests.benchmarks.gpu_smoke --json [--model OWNER/NAME | --size 0.6] [--steps 20] [--rl-steps 20]

A model by name (a folder, or one that Hugging Face has), or one of Qwen3's architecture with random weights of about
0.6, 1.7 or 4 billion parameters, built on the spot. Tasks are the demo's; a model that knows nothing earns next to no
reward on them, and that is no fault. SFT is stopped half way and gone on from its checkpoint; RL begins with what it
ended with; what RL ended with is served and asked. Every part runs as a process of its own, as workers start it.

Exit 3 with a sentence where there is no GPU. `--tiny` runs the same path anywhere with the demo's own model, on a CPU
with transformers in vLLM's place: its figures say nothing of a GPU. With `--engine vllm_server` a vLLM server draws
RL's attempts and gets all weights between steps; it is started by `vllm`, or what ENVARIUM_VLLM names. The last line of
output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, get_args

from training.config import EngineKind
from training.job import JOB, RECORD, STOP, Exit
from training.worker import machine

NO_GPU = 3
SIZES: dict[str, dict[str, int]] = {
    "0.6": {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16},
    "1.7": {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16},
    "4": {"hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32},
}
"""Layers of Qwen3's models, by billions of parameters; the vocabulary is the demo's, so each is somewhat smaller."""
WINDOW = 4096
VLLM_START_S = 900.0
ASKED, AT_ONCE, REPLY_TOKENS = 64, 16, 64


def why_no_gpu() -> str:
    """Why nothing can be measured here; empty where a GPU can be used."""
    try:
        import torch
    except ImportError:
        return "There is no torch in this Python, so no GPU can be used: install Envarium's extra `train`."
    if torch.cuda.is_available():
        return ""
    if machine.list_gpus():
        return f"The driver shows a GPU, but torch {torch.__version__} cannot use it: install torch's build for CUDA."
    return "There is no GPU here that torch can use: run this where there is one, or with --tiny for the path alone."


class PeakMemory:
    """The most memory in use on the GPUs together while it is entered, in MiB, looked at four times a second."""

    def __init__(self) -> None:
        self.mib = 0
        self._over = threading.Event()

    def __enter__(self) -> PeakMemory:
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(0.25):
            self.mib = max(self.mib, sum(int(gpu["used_mib"]) for gpu in machine.list_gpus()))


def build(folder: Path, size: str, seed: int) -> int:
    """Write a random model of a size beside the demo's tokenizer, in `folder/untrained`; returns its parameters."""
    import torch
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(folder / "untrained")
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer), num_key_value_heads=8, head_dim=128, max_position_embeddings=WINDOW,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id, **SIZES[size],
    )  # fmt: skip
    with torch.device("cuda"):
        model = Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder / "untrained")
    tokenizer.model_max_length = WINDOW
    tokenizer.save_pretrained(folder / "untrained")
    return int(model.num_parameters())


def prepare(folder: Path, given: argparse.Namespace, engine: str) -> dict[str, Any]:
    """Datasets and both jobs in `folder`; what the model is."""
    from training.demo.prepare import prepare_demo
    from training.examples import datasets

    datasets.EACH = given.each
    real = not given.tiny
    wide: dict[str, Any] = {"optimiser": {"precision": "auto", "learning_rate": 1e-5}} if real else {}
    batch = 8
    changes: dict[str, dict[str, Any]] = {
        "sft": {
            "batch": batch, "evaluation": {"tasks": 2}, "limits": {"checkpoint_every": max(1, given.steps // 4)},
            **wide, **({"max_length": WINDOW} if real else {}),
        },
        "rl": {
            "steps": given.rl_steps, "evaluation": {"tasks": 2}, "limits": {"checkpoint_every": given.rl_steps},
            **wide,
            **({"decoding": {"trajectory_tokens": WINDOW, "turn_tokens": 256}} if real else {}),
        },
    }  # fmt: skip
    prepare_demo(folder, given.seed, 0, changes)
    lessons = json.loads((folder / "trajectories" / "manifest.json").read_text(encoding="utf-8"))["train"]["rows"]
    rewrite(folder / "sft", config={"epochs": given.steps * batch / lessons})
    rewrite(folder / "rl", engine=engine)
    if given.tiny:
        return {"name": "the demo's", "built": True}
    if not given.model:
        return {"name": f"random, {given.size} B", "built": True, "parameters": build(folder, given.size, given.seed)}
    path = given.model
    if not Path(path).is_dir():
        from huggingface_hub import snapshot_download

        path = snapshot_download(path, allow_patterns=["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model"])
    rewrite(folder / "sft", model=str(Path(path).resolve()))
    return {"name": given.model, "built": False}


def rewrite(folder: Path, *, config: dict[str, Any] | None = None, **fields: Any) -> None:
    """Change a job's file."""
    told = json.loads((folder / JOB).read_text(encoding="utf-8"))
    told["config"] |= config or {}
    (folder / JOB).write_text(json.dumps(told | fields), encoding="utf-8")


def values_of(folder: Path) -> list[dict[str, Any]]:
    """What each training step recorded; a step that was made again counts as the last time."""
    from training.metrics import Position, Values, read_records

    position, steps = Position(), {}
    while (found := read_records(folder / RECORD, position))[0]:
        records, position = found
        for one in records:
            if isinstance(one, Values) and "loss" in one.values:
                steps[one.step] = one.values
    return [steps[step] for step in sorted(steps)]


def launched(folder: Path, name: str) -> subprocess.Popen[bytes]:
    log = (folder / f"{name}.log").open("ab")
    return subprocess.Popen([sys.executable, "-m", "training.launch", str(folder / name)], stdout=log, stderr=log)


def carried_out(folder: Path, name: str, expected: Exit = Exit.DONE, stop_at: int = 0) -> None:
    """Run a job as a process; with `stop_at`, tell it to stop behind that step. Raises SystemExit with its log."""
    process = launched(folder, name)
    while process.poll() is None:
        if stop_at and (folder / name / RECORD).exists() and len(values_of(folder / name)) >= stop_at:
            (folder / name / STOP).touch()
            stop_at = 0
        time.sleep(0.05)
    if process.returncode != expected:
        tail = (folder / f"{name}.log").read_text(errors="replace")[-3_000:]
        raise SystemExit(f"{name} ended with {process.returncode}, not {expected.name.lower()}:\n{tail}")


@contextmanager
def drawing_server(folder: Path, engine: str) -> Iterator[None]:
    """vLLM with the model that RL begins with, known to the job, for the block; nothing with another engine."""
    if engine != "vllm_server":
        yield
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    command = [os.environ.get("ENVARIUM_VLLM") or "vllm", "serve", str(folder / "sft" / "model"), "--host", "127.0.0.1",
               "--port", url.rpartition(":")[2], "--logprobs-mode", "processed_logprobs"]  # fmt: skip
    transfer = ["--weight-transfer-config", '{"backend": "nccl"}'] if machine.list_gpus() else []
    environment = os.environ | {"VLLM_SERVER_DEV_MODE": "1"}
    log = folder / "vllm.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, *transfer], stdout=out, stderr=out, env=environment, start_new_session=True
        )
    try:
        until = time.monotonic() + VLLM_START_S
        while not answers(f"{url}/health"):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"vLLM does not answer:\n{log.read_text(errors='replace')[-3_000:]}")
            time.sleep(0.5)
        rewrite(folder / "rl", server={"url": url})
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def figures(folder: Path, seconds: float, peak: PeakMemory) -> dict[str, Any]:
    """What a job's record comes to."""
    steps = values_of(folder)

    def middle(name: str) -> float | None:
        known = [step[name] for step in steps if step.get(name) is not None]
        return round(statistics.median(known), 5) if known else None

    told = {name: middle(name) for name in ("tokens_per_s", "step_s", "reward", "sampling_gap", "entropy")}
    losses = [step["loss"] for step in steps]
    return {
        "steps": len(steps), "seconds": round(seconds, 1), "peak_mib": peak.mib,
        "loss": [losses[0], losses[-1]] if losses else None,
        **{name: value for name, value in told.items() if value is not None},
    }  # fmt: skip


@contextmanager
def measured(folder: Path, into: dict[str, Any], name: str) -> Iterator[None]:
    began = time.perf_counter()
    with PeakMemory() as peak:
        yield
    into[name] = figures(folder / name, time.perf_counter() - began, peak)
    print(name, json.dumps(into[name]), file=sys.stderr, flush=True)


def served(folder: Path, kind: str) -> dict[str, Any]:
    """Serve RL's model as a worker does, and ask it from `AT_ONCE` threads."""
    from training import lifeline
    from training.dataset import TrajectoryRow, read_rows
    from training.worker.serving.model_server import ModelServer, ServerSettings, choose_server_kind, describe_server

    rows = [row for row in read_rows(folder / "trajectories", "train") if isinstance(row, TrajectoryRow)]
    row = rows[0].trl()
    until = next(place for place, message in enumerate(row["messages"]) if message["role"] == "assistant")
    body = {"model": "m", "messages": row["messages"][:until], "tools": row["tools"], "temperature": 1.0,
            "max_tokens": REPLY_TOKENS}  # fmt: skip
    lock, began = folder / "alive", time.perf_counter()
    held = lifeline.hold_lock(lock)
    chosen = choose_server_kind(kind)
    with PeakMemory() as peak:
        server = ModelServer(chosen, ServerSettings(folder / "rl" / "model"), lock, folder / "server.log")
        try:
            while not server.answers():
                if not server.is_alive:
                    raise SystemExit(f"the server did not start: {server.describe_end()}\n{server.log_end()[-3_000:]}")
                time.sleep(0.5)
            start_s, began = time.perf_counter() - began, time.perf_counter()
            with ThreadPoolExecutor(AT_ONCE) as pool:
                replies = list(pool.map(server.ask, [body] * ASKED))
            seconds = time.perf_counter() - began
        finally:
            server.end()
            os.close(held)
    good = [reply for status, reply in replies if status == 200]
    if len(good) < ASKED:
        raise SystemExit(
            f"{ASKED - len(good)} of {ASKED} requests failed: {next(reply for reply in replies if reply[0] != 200)}"
        )
    tokens = sum(reply["usage"]["completion_tokens"] for reply in good)
    calls = sum(bool(reply["choices"][0]["message"].get("tool_calls")) for reply in good)
    return {
        "engine": describe_server(chosen), "start_s": round(start_s, 1), "requests": ASKED, "at_once": AT_ONCE,
        "tokens_per_s": round(tokens / seconds, 1), "with_calls": calls, "peak_mib": peak.mib,
    }  # fmt: skip


def smoke(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """All of it; returns the figures."""
    engine = given.engine or ("vllm" if "vllm" in machine.list_engines() and not given.tiny else "transformers")
    told: dict[str, Any] = {"gpus": machine.list_gpus(), "software": machine.list_software(), "engine": engine}
    told["model"] = prepare(folder, given, engine)
    half = max(1, given.steps // 2)
    with measured(folder, told, "sft"):
        carried_out(folder, "sft", Exit.STOPPED, stop_at=half)
        stopped = len(values_of(folder / "sft"))
        (folder / "sft" / STOP).unlink()
        rewrite(folder / "sft", resume=True)
        carried_out(folder, "sft")
    told["resumed_from"] = stopped
    with drawing_server(folder, engine), measured(folder, told, "rl"):
        carried_out(folder, "rl")
    saved = folder / "rl" / "model"
    told["saved_bytes"] = sum(path.stat().st_size for path in saved.iterdir())
    told["serve"] = served(folder, "transformers" if given.tiny else "auto")
    return told


def main() -> int:
    """Returns the exit status: 3 where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="a folder, or OWNER/NAME at Hugging Face")
    parser.add_argument("--size", choices=sorted(SIZES), default="0.6", help="billions of parameters")
    parser.add_argument("--steps", type=int, default=20, help="of SFT")
    parser.add_argument("--rl-steps", type=int, default=20)
    parser.add_argument("--each", type=int, default=60, help="tasks of each of the demo's environments")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--engine", choices=get_args(EngineKind), help="what draws RL's attempts; else vLLM if it is here"
    )
    parser.add_argument("--tiny", action="store_true", help="the path alone, anywhere, with the demo's model")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if not given.tiny and (why := why_no_gpu()):
        print(why, file=sys.stderr)
        return NO_GPU
    with tempfile.TemporaryDirectory(prefix="gpu-smoke-") as folder:
        told = smoke(Path(folder), given)
    if given.json:
        print(json.dumps(told))
    else:
        for name, value in told.items():
            print(f"{name}: {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
