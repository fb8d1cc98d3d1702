"""Everything the demo's two jobs need, written to a folder: model, datasets, `sft/job.json` and `rl/job.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from synthesis.runtime import get_default_sandbox
from training.config import JobConfig
from training.examples.datasets import freeze_demo
from training.job import JOB, JobFile
from training.presets import change_preset, load_preset


def prepare_demo(folder: Path, seed: int, threads: int = 0, changes: dict[str, dict[str, Any]] | None = None) -> None:
    """Write the demo for a seed; the RL job begins with the model that the SFT job ends with.

    `changes` are changed fields of the presets, under `sft` and `rl`. Raises InputError: the folder holds a demo.
    """
    from training.demo.model import build_model, build_tokenizer  # torch, which `--help` does without

    lessons, _ = freeze_demo(get_default_sandbox(), folder, seed)
    tokenizer = build_tokenizer([lesson.trl() for lesson in lessons])
    build_model(tokenizer, seed).save_pretrained(folder / "untrained")
    tokenizer.save_pretrained(folder / "untrained")
    preset_changes = changes or {}
    _write_job(
        folder / "sft",
        _load_config("demo-sft", seed, preset_changes.get("sft", {})),
        "../untrained",
        "../trajectories",
        threads,
    )
    _write_job(
        folder / "rl", _load_config("demo-rl", seed, preset_changes.get("rl", {})), "../sft/model", "../tasks", threads
    )


def _load_config(preset: str, seed: int, changes: dict[str, Any]) -> JobConfig:
    return change_preset(load_preset(preset), {"seed": seed} | changes).config


def _write_job(folder: Path, config: JobConfig, model: str, dataset: str, threads: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    job = JobFile(config=config, model=model, dataset=dataset, evaluation="../tasks", threads=threads)
    (folder / JOB).write_text(job.model_dump_json(indent=1), encoding="utf-8")
