"""RL on tasks: attempts in the sandbox, advantages and loss as configured, a record and checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import datasets
from transformers import PrinterCallback
from trl import GRPOConfig

from synthesis.errors import InputError
from training.attempts import Table, TaskAttempt
from training.config import Correction, EngineKind, Masking, Reinforcement
from training.dataset import TaskRow
from training.engines.ahead import NextStep
from training.engines.choice import is_copied_by_trl, make_policy_engine, require_engine, translate_engine_errors
from training.engines.weights import PolicyEngine
from training.evaluate import Result, attempt_tasks, evaluate_model
from training.job import VllmServer
from training.metrics import Writer
from training.model_loader import build_lora_config
from training.placement.model_placement import configure_cpu_sharding, is_sharded
from training.sampler import Catalogue, Prompt, SamplerState
from training.schedule import get_horizon
from training.step import Ranks, StepStopped, TooManyLost, TooManyProgramErrors, TrainingStep, make_step
from training.step_record import (
    choose_watched_tasks,
    compute_step_values,
    describe_program_errors,
    describe_unknown_users,
    write_rollouts,
)
from training.trainer import AgentTrainer, Sums
from training.trainer_callbacks import (
    Ended,
    RecordKeeper,
    Watch,
    build_trainer_arguments,
    choose_micro_batch,
    find_latest_checkpoint,
    report_begin,
    report_resume,
    translate_disk_errors,
    write_values,
)

SAMPLER = "sampler.json"
"""In each checkpoint: how far the sampler was when it was written."""
VLLM_SHARE = 0.3
"""vLLM's share of a GPU where neither the job nor the GPU's size says another one."""


@dataclass
class ReinforcementJob:
    """Parts of an RL job. `held_out` may be empty: then nothing is evaluated. `writer` is None on other ranks.

    `engine` draws the attempts' tokens: the model itself, vLLM in this process (TRL's `colocate`), or a vLLM `server`.
    """

    cfg: Reinforcement
    folder: Path
    model: Any
    table: Table
    rows: Sequence[TaskRow]
    held_out: Sequence[TaskRow]
    writer: Writer | None
    watch: Watch
    engine: EngineKind = "transformers"
    server: VllmServer | None = None
    drawing: PolicyEngine | None = None
    ahead: NextStep[TrainingStep] | None = None
    state: SamplerState = field(default_factory=SamplerState)
    results: list[tuple[int, Result]] = field(default_factory=list)
    watched: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.watched = choose_watched_tasks(self.rows)


def train_reinforcement(job: ReinforcementJob, resume: bool = False) -> tuple[Ended, AgentTrainer]:
    """Train to the end, or until the watch stops the job, which then has a checkpoint. `resume` continues from the last
    one.

    Raises InputError: the configuration does not fit the dataset or the number of processes; Diverged; TooManyLost and
    TooManyProgramErrors, with a checkpoint of the policy as it was before that step; InfrastructureError: the disk is
    full.
    """
    cfg = job.cfg
    require_engine(cfg, job.engine, job.server)
    prompts = (
        Prompt(row=n, environment=r.environment, setting=r.setting, verifier=r.rollout.verifier.kind)
        for n, r in enumerate(job.rows)
    )
    catalogue = Catalogue(prompts, cfg.mixture, cfg.sampling, cfg.seed)
    checkpoint = find_latest_checkpoint(job.folder, SAMPLER) if resume else None
    report_resume(job.writer, checkpoint)
    if checkpoint is not None:
        job.state = SamplerState.model_validate_json((checkpoint / SAMPLER).read_bytes())
    trainer = _build_trainer(job, catalogue)
    report_begin(job.writer, trainer)
    try:
        job.drawing = make_policy_engine(cfg, job.engine, job.server, job.folder, trainer)
        # A sharded model is on its devices only from the first step on: see `evaluate_at_begin`.
        if checkpoint is None and not is_sharded(cfg.hardware):
            _evaluate_policy(job, trainer, 0)
        with translate_disk_errors():
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except (StepStopped, TooManyLost, TooManyProgramErrors) as error:
        # Attempts under way were not trained on: the policy is that of the last complete step.
        _save_between_steps(job, trainer)
        if not isinstance(error, StepStopped):
            raise
        job.watch.ended = "stopped"
    finally:
        if job.ahead is not None:
            job.ahead.close()
    if job.watch.ended == "done" and not _evaluate_policy(job, trainer, trainer.state.global_step):
        job.watch.ended = "stopped"
    return job.watch.ended, trainer


def _build_trainer(job: ReinforcementJob, catalogue: Catalogue) -> AgentTrainer:
    cfg = job.cfg

    def make_rollouts(trainer: AgentTrainer) -> TrainingStep:
        assert job.drawing is not None
        step = trainer.state.global_step
        next_step = job.ahead.take() if job.ahead is not None else None
        job.drawing.publish(step)
        if next_step is None:
            next_step = _make_training_step(job, catalogue, job.state, step, trainer.ranks)
        if job.ahead is not None and step + cfg.loss.updates < cfg.steps:
            job.ahead.begin(next_step.state, step)
        job.state = next_step.state
        return next_step

    arguments = _build_arguments(job)
    configure_cpu_sharding(arguments)
    with translate_engine_errors(job.engine):
        trainer = AgentTrainer(
            cfg,
            make_rollouts,
            arguments,
            model=job.model,
            train_dataset=datasets.Dataset.from_dict({"prompt": [""] * cfg.sampling.tasks}),
            processing_class=job.table.tokenizer,
            peft_config=build_lora_config(cfg.tuning),
        )

    if cfg.attempts.ahead:
        ranks = trainer.ranks.apart()
        job.ahead = NextStep(
            lambda state, step, closed: _make_training_step(job, catalogue, state, step, ranks, closed)
        )
        trainer.before_weights = job.ahead.wait

    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(_build_record_keeper(job, trainer))
    return trainer


def _build_record_keeper(job: ReinforcementJob, trainer: AgentTrainer) -> RecordKeeper:
    """Return the callback that records values, saves the sampler and evaluates the policy when they are due."""
    cfg = job.cfg

    def collect_values(step: int) -> dict[str, float]:
        return _collect_values(job, trainer, step)

    def save_sampler(folder: Path) -> None:
        # The last file of a checkpoint: if it exists, all the others do.
        pending = folder / f"{SAMPLER}.new"
        pending.write_text(job.state.model_dump_json(), encoding="utf-8")
        os.replace(pending, folder / SAMPLER)

    def evaluate_after(step: int) -> None:
        if cfg.evaluation.every and step % cfg.evaluation.every == 0 and step < cfg.steps:
            _evaluate_policy(job, trainer, step)

    def evaluate_at_begin() -> None:
        if is_sharded(cfg.hardware) and not trainer.state.global_step:
            _evaluate_policy(job, trainer, 0)

    return RecordKeeper(
        job.writer,
        job.watch,
        lambda: trainer.ranks,
        values=collect_values,
        saved=save_sampler,
        after=evaluate_after,
        begun=evaluate_at_begin,
    )


def _make_training_step(
    job: ReinforcementJob,
    catalogue: Catalogue,
    state: SamplerState,
    step: int,
    ranks: Ranks,
    closed: Callable[[], bool] = lambda: False,
) -> TrainingStep:
    """Make the attempts that follow a sampler's state, by the policy after `step` updates, which the engine has."""
    cfg, policy_drawing = job.cfg, job.drawing
    assert policy_drawing is not None
    turns = get_horizon(cfg.horizon, step, cfg.steps)

    def is_stopped() -> bool:
        return closed() or job.table.stopped()

    table = replace(job.table, engine=policy_drawing.source, stopped=is_stopped)

    def attempt_work(work: Sequence[tuple[TaskRow, int]], seed: str) -> list[TaskAttempt]:
        with policy_drawing.using() as model:
            return attempt_tasks(table, model, work, turns, cfg.decoding, seed, f"step {step}", step)

    new_step = make_step(cfg, catalogue, job.rows, state, attempt_work, ranks, is_stopped)
    return replace(new_step, policy_step=step)


def _build_arguments(job: ReinforcementJob) -> GRPOConfig:
    cfg = job.cfg
    shared = build_trainer_arguments(job.folder, cfg.optimiser, cfg.limits, cfg.hardware, cfg.seed)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    attempts = cfg.sampling.tasks * cfg.sampling.rollouts
    if attempts % world:
        raise InputError(f"sampling: {attempts} attempts a step cannot be shared evenly by {world} processes")
    # With a budget of tokens a batch is a rank's whole share, of which the trainer makes micro batches.
    micro = (
        attempts // world
        if cfg.hardware.micro_tokens
        else choose_micro_batch(attempts // world, cfg.optimiser.micro_batch)
    )
    reference = bool(cfg.kl.coefficient) and (cfg.kl.place != "loss" or cfg.kl.to == "reference")
    return GRPOConfig(
        **shared,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=attempts // world // micro,
        num_generations=cfg.sampling.rollouts,
        num_iterations=cfg.loss.updates,
        max_steps=cfg.steps,
        temperature=cfg.decoding.temperature,
        # TRL computes the reference's log-probabilities if beta is not 0; the penalty itself is ours.
        beta=cfg.kl.coefficient if reference else 0.0,
        loss_type="grpo",
        scale_rewards="none",
        router_aux_loss_coef=0.0,
        disable_dropout=True,
        shuffle_dataset=False,
        remove_unused_columns=False,
        # The rows are placeholders: the sampler's state decides the tasks of a step.
        ignore_data_skip=True,
        **_build_engine_arguments(job),
    )


def _build_engine_arguments(job: ReinforcementJob) -> dict[str, Any]:
    """Return TRL's settings of a vLLM engine to which it copies all weights."""
    if not is_copied_by_trl(job.cfg, job.engine, job.server):
        return {}
    if job.engine == "vllm_server":
        assert job.server is not None
        where = {"vllm_mode": "server", "vllm_server_base_url": job.server.url}
        # Our loss corrects what the sampler drew (`training.objective.correction`).
        return {"use_vllm": True, "vllm_importance_sampling_correction": False, **where}
    return {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_max_model_length": job.cfg.decoding.trajectory_tokens,
        "vllm_gpu_memory_utilization": job.cfg.hardware.vllm_share or VLLM_SHARE,
        "vllm_tensor_parallel_size": job.cfg.hardware.vllm_tensor_parallel,
        "vllm_enable_sleep_mode": job.cfg.hardware.vllm_sleep == "on",
        # Our loss corrects what the sampler drew (`training.objective.correction`).
        "vllm_importance_sampling_correction": False,
    }


def _collect_values(job: ReinforcementJob, trainer: AgentTrainer, step: int) -> dict[str, float]:
    """Return the numbers of the update; after the first update on a step's attempts also theirs, which are then
    written.
    """
    report = trainer.told
    assert report is not None
    values = report.sums.values(lambda sums: trainer.accelerator.reduce(sums.to(trainer.accelerator.device)))
    report.sums = Sums()
    if not job.cfg.kl.coefficient:
        del values["kl"]  # nothing measured it
    elif job.cfg.kl.place != "loss":
        values["kl"] = report.divergence
    if not report.advantages:
        return values
    kept_advantages = [a for a in report.advantages if a is not None]
    mean = sum(kept_advantages) / len(kept_advantages)
    horizon = get_horizon(job.cfg.horizon, step - 1, job.cfg.steps)
    values |= compute_step_values(report.step.judged, report.step.seconds, job.watched)
    values |= {
        "advantage_std": (sum((a - mean) ** 2 for a in kept_advantages) / max(len(kept_advantages) - 1, 1)) ** 0.5,
        "flat_groups": report.masks.flat.double().mean().item(),
        "draws": float(report.step.draws),
        "horizon": float(horizon),
        "masked": 1 - report.masks.counted[report.step.kept].double().mean().item(),
        "policy_age": float(step - 1 - report.step.policy_step),
    }
    values["rollout_s"] = values.pop("step_s")
    if job.writer is not None:
        path = f"rollouts/step-{step:06d}.jsonl.gz"
        write_rollouts(job.folder / path, report.step.judged, report.advantages, report.step.policy_step, horizon)
        attempt_counts = {"attempts": len(report.step.judged), "policy_step": report.step.policy_step}
        job.writer.artefact(step, "rollouts", path, **attempt_counts)
        _report_gap(job.writer, job.cfg.correction, step, values)
        _report_lost(job.writer, report.step, step, job.cfg.masking)
    report.advantages = []
    return values


def _report_gap(writer: Writer, correction: Correction, step: int, values: Mapping[str, float]) -> None:
    gap, cut = values["sampling_gap"], values["sampling_truncated"]
    if not correction.alarm_gap or gap <= correction.alarm_gap:
        return
    correction_text = (
        "nothing corrects for it" if correction.kind == "none" else f"{cut:.1%} of the corrections were cut"
    )
    writer.event(
        step,
        "warn",
        f"What drew the tokens and what learns from them are {gap:.3g} nats a token apart, more than the "
        f"{correction.alarm_gap:g} of correction.alarm_gap; {correction_text}. Compare precision, sampling parameters "
        "and the server's --logprobs-mode (processed_logprobs).",
        alert="sampling_gap",
        gap=gap,
        truncated=cut,
    )


def _report_lost(writer: Writer, made: TrainingStep, step: int, masking: Masking) -> None:
    lost = [tried.attempt.note for tried, score in made.judged if score.masked == "infra_error"]
    if lost:
        message = f"{len(lost)} of {len(made.judged)} attempts were lost and are masked; the last one: {lost[-1][:500]}"
        writer.event(step, "warn", message, lost=len(lost))
    program_errors = sum(tried.attempt.outcome == "program_error" for tried, _ in made.judged)
    if program_errors:
        counted = "masked" if masking.program_errors else "counted as 0"
        words = describe_program_errors(made.judged)
        message = f"Programs ended {program_errors} of {len(made.judged)} attempts, which are {counted}: {words}"
        writer.event(step, "warn", message, program_errors=program_errors)
    if words := describe_unknown_users(made.judged):
        writer.event(step, "warn", words)


def _evaluate_policy(job: ReinforcementJob, trainer: AgentTrainer, step: int) -> bool:
    """Evaluate and return whether it ran to its end; a stop in between leaves no numbers of a part of the tasks."""
    cfg = job.cfg
    if not job.held_out:
        return True
    assert job.drawing is not None
    if job.ahead is not None:
        job.ahead.wait()
    job.drawing.publish(step)
    try:
        with job.drawing.using() as model:
            result = evaluate_model(
                replace(job.table, engine=job.drawing.source), model, job.held_out, cfg.evaluation, cfg.decoding,
                cfg.seed, ranks=trainer.ranks, name=f"step {step}", policy_step=step,
                masking=Masking(program_errors=cfg.masking.program_errors),
            )  # fmt: skip
    except StepStopped:
        return False
    job.results.append((step, result))
    write_values(job.writer, step, result.values())
    return True


def _save_between_steps(job: ReinforcementJob, trainer: AgentTrainer) -> None:
    """Save a checkpoint of the policy between two steps. At step 0 the policy is the model that the job began with."""
    step = trainer.state.global_step
    folder = Path(trainer.args.output_dir) / f"checkpoint-{step}"
    if step and not (folder / SAMPLER).is_file():
        with translate_disk_errors():
            trainer._save_checkpoint(trainer.model, trial=None)
            trainer.callback_handler.on_save(trainer.args, trainer.state, trainer.control)
