"""What a step of RL costs beside TRL's own trainer, how little of it environments and verifiers take, and what the
web app takes of a trainer's record, also where it is killed twice (`tests.benchmarks.ingest`).

    python -m tests.benchmarks.training --json [--steps 8] [--rounds 3] [--threads 2] [--rollouts 8]

The same model (the demo's, after a short SFT), the same tasks and as many attempts. TRL's side has the demo's programs
in the trainer's own process (`environment_factory`), without a sandbox, and generates with transformers; ours goes
through `synthesis.rollout` and the sandbox. Each side has a process of its own, `--rounds` times in turn, since a
machine's speed changes within minutes; `rl_step_ratio` is the ratio of the medians of all their steps, ours over
theirs. What the agents wrote is counted beside it, since longer attempts cost more. The last line of output is one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def prepare(folder: Path, steps: int, rollouts: int, epochs: float, threads: int, each: int | None) -> None:
    from training.demo.prepare import prepare_demo
    from training.examples import datasets
    from training.launch import main as launch

    datasets.EACH = each or datasets.EACH
    changes: dict[str, dict[str, Any]] = {
        "sft": {"epochs": epochs, "evaluation": {"tasks": 8}},
        "rl": {
            "steps": steps, "sampling": {"rollouts": rollouts}, "evaluation": {"tasks": 1},
            "limits": {"checkpoint_every": 100_000},
        },
    }  # fmt: skip
    prepare_demo(folder, 0, threads, changes)
    if launch([str(folder / "sft")]):
        raise SystemExit("the SFT job failed")


def ours(folder: Path, warm: int) -> dict[str, Any]:
    """Seconds of each step of the RL job, and shares of the attempts' time."""
    from training.job import RECORD
    from training.launch import main as launch
    from training.metrics import Position, Values, read_records

    if launch([str(folder / "rl")]):
        raise SystemExit("the RL job failed")
    found = [one for one in read_records(folder / "rl" / RECORD, Position())[0] if isinstance(one, Values)]
    steps = [one.values for one in found if "loss" in one.values][warm:]
    return {
        "seconds": [step["step_s"] for step in steps],
        "environment_share": statistics.median(step["environment_share"] or 0.0 for step in steps),
        "verification_share": statistics.median(step["verification_share"] or 0.0 for step in steps),
        "tokens": statistics.mean(step["length"] or 0.0 for step in steps),
    }


def shown(folder: Path, cfg: Any) -> list[dict[str, Any]]:
    """The tasks of all steps in the order in which our sampler draws them, as TRL's environments take them."""
    from synthesis.rollout.styles import build_system_message
    from training.dataset import TaskRow, read_rows
    from training.sampler import Catalogue, Prompt, SamplerState

    rows = [row for row in read_rows(folder / "tasks", "train") if isinstance(row, TaskRow)]
    prompts = (Prompt(row=n, environment=row.environment) for n, row in enumerate(rows))
    catalogue, state = Catalogue(prompts, cfg.mixture, cfg.sampling, cfg.seed), SamplerState()
    found = []
    for _ in range(cfg.steps):
        places, state = catalogue.draw(state)
        for row in (rows[place] for place in places):
            told, _ = build_system_message("tools", False, row.rollout.documentation, row.rollout.program.tools)
            asked = {"role": "user", "content": row.rollout.instruction}
            prompt = [{"role": "system", "content": told.content}, asked]
            found.append({"prompt": prompt, "environment": row.environment, "task": row.rollout.model_dump_json()})
    return found


def arguments(folder: Path, cfg: Any) -> Any:
    """TRL's configuration of the same job."""
    from trl import GRPOConfig

    attempts = cfg.sampling.tasks * cfg.sampling.rollouts
    micro = min(cfg.optimiser.micro_batch, attempts)
    return GRPOConfig(
        output_dir=str(folder / "theirs"), per_device_train_batch_size=micro,
        gradient_accumulation_steps=attempts // micro, num_generations=cfg.sampling.rollouts, max_steps=cfg.steps,
        learning_rate=cfg.optimiser.learning_rate, lr_scheduler_type="constant_with_warmup",
        warmup_steps=cfg.optimiser.warmup_steps, loss_type="dapo", epsilon_high=cfg.loss.clip_high,
        max_completion_length=cfg.decoding.trajectory_tokens, max_tool_calling_iterations=cfg.horizon.turns - 1,
        generation_kwargs={"max_new_tokens": cfg.decoding.turn_tokens}, use_cpu=True, bf16=False,
        gradient_checkpointing=False, shuffle_dataset=False, logging_steps=1, save_strategy="no", report_to="none",
        disable_tqdm=True, seed=cfg.seed,
    )  # fmt: skip


def theirs(folder: Path, warm: int) -> dict[str, Any]:
    """The same with TRL's trainer as it is."""
    import torch
    from datasets import Dataset
    from transformers import PrinterCallback, TrainerCallback
    from trl import GRPOTrainer

    from tests.benchmarks.in_process import FACTORIES
    from training.examples.tasks import build_program
    from training.job import read_job
    from training.model_loader import load_model
    from training.templates import serialize_tools

    job = read_job(folder / "rl")
    torch.set_num_threads(job.threads)
    model, tokenizer, _ = load_model(str(folder / "rl" / job.model), job.config.optimiser)
    seconds: list[float] = []

    class Clock(TrainerCallback):
        last = 0.0

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.last = time.perf_counter()

        def on_log(self, *_: Any, **__: Any) -> None:
            now = time.perf_counter()
            seconds.append(now - self.last)
            self.last = now

    trainer = GRPOTrainer(
        model=model,
        args=arguments(folder, job.config),
        train_dataset=Dataset.from_list(shown(folder, job.config)),
        processing_class=tokenizer,
        environment_factory=FACTORIES,
        callbacks=[Clock()],
    )
    trainer.remove_callback(PrinterCallback)
    # TRL would describe the tools in other words: prompts are to be the same, token for token.
    trainer._env_tools = {name: serialize_tools(build_program(name).tools) for name in FACTORIES}
    trainer.train()
    lengths = [log["completions/mean_length"] for log in trainer.state.log_history if "completions/mean_length" in log]
    return {"seconds": seconds[warm : job.config.steps], "tokens": statistics.mean(lengths[warm:])}


def child(side: str, prepared: Path, warm: int) -> dict[str, Any]:
    """One side in a process and a folder of its own, so that neither inherits the other's threads and caches."""
    with tempfile.TemporaryDirectory(prefix=f"training-{side}-") as name:
        folder = shutil.copytree(prepared, Path(name) / "jobs")
        command = [sys.executable, "-m", "tests.benchmarks.training", "--side", side, "--folder", str(folder)]
        command += ["--warm", str(warm)]
        environment = {**os.environ, "TRL_EXPERIMENTAL_SILENCE": "1"}
        told = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment).stdout.decode()
    answer: dict[str, Any] = json.loads(told.strip().splitlines()[-1])
    return answer


def compared(prepared: Path, warm: int, rounds: int) -> dict[str, Any]:
    """Both sides in turn; each round begins with the other one."""
    told: dict[str, list[dict[str, Any]]] = {"ours": [], "theirs": []}
    for number in range(rounds):
        for side in sorted(told, reverse=bool(number % 2)):
            told[side].append(child(side, prepared, warm))
    steps = {side: [second for one in each for second in one["seconds"]] for side, each in told.items()}
    means = {key: statistics.fmean(one[key] for one in told["ours"]) for key in told["ours"][0] if key != "seconds"}
    step, beside = (statistics.median(steps[side]) for side in ("ours", "theirs"))
    return {
        "rl_step_ratio": round(step / beside, 3),
        "step_s": round(step, 3),
        "trl_step_s": round(beside, 3),
        "agent_tokens": round(means["tokens"], 1),
        "trl_agent_tokens": round(statistics.fmean(one["tokens"] for one in told["theirs"]), 1),
        "environment_share": round(means["environment_share"], 4),
        "verification_share": round(means["verification_share"], 4),
        "steps": len(steps["ours"]),
    }


def ingested() -> dict[str, Any]:
    """The web app's part, in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.ingest", "--json"]
    told = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()
    answer: dict[str, Any] = json.loads(told.strip().splitlines()[-1])
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3, help="each side trains so often, in turn")
    parser.add_argument("--warm", type=int, default=2, help="first steps, which warm caches and are not counted")
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("--epochs", type=float, default=3.0, help="of the SFT before")
    parser.add_argument("--each", type=int, help="tasks of each environment; the demo's own where it is not given")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--without-ingest", action="store_true", help="only the trainers")
    parser.add_argument("--side", choices=["ours", "theirs"])
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.side:
        print(json.dumps((ours if given.side == "ours" else theirs)(given.folder, given.warm)))
        return
    with tempfile.TemporaryDirectory(prefix="training-") as name:
        folder = Path(name)
        prepare(folder, given.steps + given.warm, given.rollouts, given.epochs, given.threads, given.each)
        told = compared(folder, given.warm, given.rounds)
    result = {
        **told,
        "threads": given.threads,
        **({} if given.without_ingest else ingested()),
    }
    print(json.dumps(result) if given.json else result)


if __name__ == "__main__":
    main()
