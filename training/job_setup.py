"""Assembly of SFT and RL jobs: the model, the sandbox, the rows, and the checks before they start."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import SecretStr, ValidationError

from synthesis.contracts import Message
from synthesis.errors import InputError, ProgramError, StateError
from synthesis.formats.answer_form import require_answer_tool
from synthesis.llm import AskedModel, Endpoint
from synthesis.rollout.styles import build_system_message
from synthesis.runtime import Sandbox, get_default_sandbox
from training import rl, sft
from training.attempts import Table
from training.config import (
    Attempts,
    Decoding,
    EngineKind,
    Evaluation,
    Hardware,
    Limits,
    Reinforcement,
    Supervised,
    Thinking,
)
from training.dataset import Row, TaskRow, TrajectoryRow
from training.evaluate import Result
from training.job import AskedModelFile, VllmServer, WallTime
from training.metrics import Writer
from training.model_loader import load_model, merge_adapters, require_window, uses_bf16
from training.placement.model_placement import choose_attention, decide_local_hardware
from training.templates import Tokenizer, encode_prompt
from training.trainer_callbacks import Ended, Watch

Done = tuple[Ended, Any, list[tuple[int, Result]]]
"""How a job ended, its trainer, and (step, result) of each evaluation."""


C = TypeVar("C", bound=Supervised | Reinforcement)
MERGE_S = 1_800.0
"""So long a process waits for another one of its machine that merges adapters."""
LOOKED_AT = 1_000
"""Of more tasks than so many, some are looked at, evenly spread."""


MERGED = "merged"
"""In a job's folder: the model that it begins with, where adapters of earlier jobs were merged into one."""


@dataclass
class Parts:
    """Parts of both kinds of job; `model` is a folder, `stopped` returns whether the job is to end."""

    folder: Path
    model: str
    rows: Sequence[Row]
    held_out: Sequence[TaskRow]
    writer: Writer | None
    stopped: Callable[[], bool]
    resume: bool
    engine: EngineKind = "transformers"
    server: VllmServer | None = None
    user: AskedModel | None = None
    judge: AskedModel | None = None
    wall: WallTime = field(default_factory=WallTime)

    def watch(self, limits: Limits) -> Watch:
        """Return the watch that ends the job: on a requested stop, or after its hours, counted over all its
        attempts.
        """
        return Watch(self.stopped, limits, self.wall.started_at, keep=self.wall.keep)


def merge_job_adapters(folder: Path, model: Path, adapters: Sequence[Path]) -> str:
    """Return the folder of the model with the adapters merged into it, one after the other; `model` itself without any.

    It is in the job's folder, so that a reference is loaded from there too. Of several processes of a machine the first
    one creates it, the others wait. Raises InputError as `merge_adapters`.
    """
    if not adapters:
        return str(model)
    merged_folder = folder / MERGED
    if os.environ.get("LOCAL_RANK", "0") == "0" and not merged_folder.exists():
        merge_adapters(model, adapters, merged_folder)
    until = time.monotonic() + MERGE_S
    while not merged_folder.exists() and time.monotonic() < until:
        time.sleep(0.2)
    return str(merged_folder)


def run_supervised_job(parts: Parts, cfg: Supervised) -> Done:
    """Run an SFT job. Raises as `sft.train_supervised`."""
    cfg = _decide_placement(parts, cfg)
    model, tokenizer, replaced = load_model(parts.model, cfg.optimiser, cfg.tuning, choose_attention(cfg.hardware))
    _report_template(parts, replaced)
    rows = [row for row in parts.rows if isinstance(row, TrajectoryRow)]
    table = None
    decoding = _build_decoding(cfg.evaluation, cfg.max_length)
    if parts.held_out:
        table = _build_table(parts, tokenizer, Attempts(at_once=64), uses_bf16(cfg.optimiser), cfg.thinking)
        check_programs(table.sandbox, parts.held_out)
    job = sft.SupervisedJob(
        cfg, parts.folder, model, tokenizer, rows, parts.writer, parts.watch(cfg.limits), parts.held_out,
        table, decoding,
    )  # fmt: skip
    ended, trainer = sft.train_supervised(job, parts.resume)
    return ended, trainer, job.results


def _decide_placement(parts: Parts, cfg: C) -> C:
    """Return the configuration with all `auto` values decided; record events with the decision, and any unmet
    request.
    """
    placed = decide_local_hardware(parts.model, cfg, parts.engine)
    if parts.writer is not None:
        parts.writer.event(0, "info", "The model's place is decided.", **placed.hardware.model_dump(mode="json"))
        if message := _describe_unmet_hardware(cfg.hardware, placed.hardware):
            parts.writer.event(0, "warn", message)
    return placed


def _describe_unmet_hardware(asked: Hardware, placed: Hardware) -> str:
    """Return a description of requested hardware settings that cannot be fulfilled here; empty if all can."""
    message = ""
    if asked.sharding == "fsdp2" != placed.sharding:
        message = "fsdp2 spreads a model over several GPUs, and there are not two: one process holds the whole model."
    if asked.offload and not placed.offload:
        message += " Nothing is offloaded: only what is spread over GPUs can be."
    return message.strip()


def _build_decoding(evaluation: Evaluation, window: int) -> Decoding:
    """Return the decoding for evaluations of an SFT job: a turn may have as many tokens as its share of the longest
    sample.
    """
    return Decoding(
        temperature=evaluation.temperature,
        top_p=evaluation.top_p,
        turn_tokens=max(16, min(4096, window // 8)),
        trajectory_tokens=window,
    )


def run_reinforcement_job(parts: Parts, cfg: Reinforcement) -> Done:
    """Run an RL job. Raises as `rl.train_reinforcement`."""
    cfg = _decide_placement(parts, cfg)
    model, tokenizer, replaced = load_model(parts.model, cfg.optimiser, cfg.tuning, choose_attention(cfg.hardware))
    _report_template(parts, replaced)
    rows = [row for row in parts.rows if isinstance(row, TaskRow)]
    table = _build_table(parts, tokenizer, cfg.attempts, uses_bf16(cfg.optimiser), cfg.thinking)
    table = replace(table, judges_user=cfg.judges_user, seed=cfg.seed)
    check_programs(table.sandbox, [*rows, *parts.held_out])
    check_lengths(model, tokenizer, [*rows, *parts.held_out], cfg.decoding)
    job = rl.ReinforcementJob(
        cfg,
        parts.folder,
        model,
        table,
        rows,
        parts.held_out,
        parts.writer,
        parts.watch(cfg.limits),
        parts.engine,
        parts.server,
    )
    ended, trainer = rl.train_reinforcement(job, parts.resume)
    return ended, trainer, job.results


def build_asked_model(role: str, told: AskedModelFile | None, key: str) -> AskedModel | None:
    """Return the model that plays a role, or None. Raises InputError: the address is invalid."""
    if told is None:
        return None
    try:
        endpoint = Endpoint(
            name=role,
            base_url=told.base_url,
            api_key=SecretStr(key),
            left_out={told.model: {"stream": ""}},  # the site sends replies whole, and refuses to be asked otherwise
        )
    except ValidationError as error:
        raise InputError(f"{role}: {error.errors(include_url=False, include_input=False)[0]['msg']}") from error
    return AskedModel(endpoint, told.model, told.temperature)


def _build_table(parts: Parts, tokenizer: Tokenizer, limits: Attempts, half: bool, thinking: Thinking) -> Table:
    sandbox = get_default_sandbox()
    return Table(sandbox, tokenizer, limits, parts.user, parts.judge, parts.stopped, half, thinking=thinking)


def _report_template(parts: Parts, replaced: bool) -> None:
    if replaced and parts.writer is not None:
        message = "The model's chat template was replaced by TRL's training form of it, which is saved with the model."
        parts.writer.event(0, "info", message)


def check_programs(sandbox: Sandbox, rows: Sequence[TaskRow]) -> None:
    """Begin one episode of each program.

    Raises InputError that names a task whose program no longer loads, or has a tool with the name of the one that
    submits the task's answer.
    """
    seen: set[str] = set()
    for row in rows:
        task = row.rollout
        try:
            require_answer_tool(task.answer_form, (tool.name for tool in task.program.tools))
        except InputError as error:
            raise InputError(f"dataset: task {row.id!r} cannot be attempted: {error}") from error
        if task.program.source in seen:
            continue
        seen.add(task.program.source)
        try:
            sandbox.reset(task.program, task.initial, seed=task.seed, now=task.now).close()
        except (ProgramError, StateError, InputError) as error:
            raise InputError(f"dataset: the program of task {row.id!r} does not load any more: {error}") from error


def _count_prompt_characters(row: TaskRow) -> int:
    task = row.rollout
    tools = sum(len(tool.model_dump_json()) for tool in task.offered_tools)
    return len(task.documentation) + len(task.instruction) + tools


def check_lengths(model: Any, tokenizer: Tokenizer, rows: Sequence[TaskRow], decoding: Decoding) -> None:
    """Raise InputError if an attempt may exceed the model's window, or a task alone leaves no room for a turn.

    Of many tasks, only those with the longest text before the agent's first turn are checked.
    """
    require_window(model, decoding.trajectory_tokens, "decoding.trajectory_tokens", "an attempt may have")
    for row in sorted(rows, key=_count_prompt_characters, reverse=True)[:LOOKED_AT]:
        task = row.rollout
        talks, tools = row.setting == "conversation", task.program.tools
        system, _ = build_system_message("tools", talks, task.documentation, tools, task.answer_form)
        messages = (system, Message(role="user", content=task.instruction))
        tokens = len(encode_prompt(tokenizer, messages, task.offered_tools))
        if tokens >= decoding.trajectory_tokens:
            raise InputError(
                f"decoding.trajectory_tokens: task {row.id!r} has {tokens} tokens before the agent's first turn, "
                f"{decoding.trajectory_tokens} are allowed for the whole attempt; raise it, or leave the task out"
            )
