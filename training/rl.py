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
from training.engines.choice import copied_by_trl, engine_errors, policy_engine, require_engine
from training.engines.weights import PolicyEngine
from training.evaluate import Result, attempt_all, evaluate
from training.job import VllmServer
from training.metrics import Writer
from training.model_loader import adapters
from training.placement.model_placement import begin, sharded
from training.sampler import Catalogue, Prompt, SamplerState
from training.schedule import horizon_at
from training.step import Ranks, StepStopped, TooManyLost, TooManyProgramErrors, TrainingStep, make_step
from training.step_record import program_error_words, unknown_users_words, values_of, watched, write_rollouts
from training.trainer import AgentTrainer, Sums
from training.trainer_callbacks import (
    Ended,
    RecordKeeper,
    Watch,
    disk_errors,
    latest_checkpoint,
    micro_batch,
    say_begun,
    say_resumed,
    trainer_arguments,
    write_values,
)

SAMPLER = "sampler.json"
"""In each checkpoint: how far the sampler was when it was written."""
VLLM_SHARE = 0.3
"""vLLM's share of a GPU where neither the job nor the GPU's size says another one."""


@dataclass
class ReinforcementJob:
    """An RL job's parts. `held_out` may be empty: then nothing is evaluated. `writer` is None on other ranks.

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
        self.watched = watched(self.rows)


def train(job: ReinforcementJob, resume: bool = False) -> tuple[Ended, AgentTrainer]:
    """Train to the end, or until the watch says stop; then a checkpoint is there. With `resume`, from the last one.

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
    checkpoint = latest_checkpoint(job.folder, SAMPLER) if resume else None
    say_resumed(job.writer, checkpoint)
    if checkpoint is not None:
        job.state = SamplerState.model_validate_json((checkpoint / SAMPLER).read_bytes())
    trainer = _trainer(job, catalogue)
    say_begun(job.writer, trainer)
    try:
        job.drawing = policy_engine(cfg, job.engine, job.server, job.folder, trainer)
        # A sharded model lies on its devices from the first step on: see `begun`.
        if checkpoint is None and not sharded(cfg.hardware):
            _evaluate(job, trainer, 0)
        with disk_errors():
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except (StepStopped, TooManyLost, TooManyProgramErrors) as error:
        # Nothing was learnt from the attempts that were under way: the policy is that of the last whole step.
        _keep_as_it_is(job, trainer)
        if not isinstance(error, StepStopped):
            raise
        job.watch.ended = "stopped"
    finally:
        if job.ahead is not None:
            job.ahead.close()
    if job.watch.ended == "done" and not _evaluate(job, trainer, trainer.state.global_step):
        job.watch.ended = "stopped"
    return job.watch.ended, trainer


def _trainer(job: ReinforcementJob, catalogue: Catalogue) -> AgentTrainer:
    cfg = job.cfg

    def roll(trainer: AgentTrainer) -> TrainingStep:
        assert job.drawing is not None
        step = trainer.state.global_step
        made = job.ahead.take() if job.ahead is not None else None
        job.drawing.publish(step)
        if made is None:
            made = _made(job, catalogue, job.state, step, trainer.ranks)
        if job.ahead is not None and step + cfg.loss.updates < cfg.steps:
            job.ahead.begin(made.state, step)
        job.state = made.state
        return made

    arguments = _arguments(job)
    begin(arguments)
    with engine_errors(job.engine):
        trainer = AgentTrainer(
            cfg,
            roll,
            arguments,
            model=job.model,
            train_dataset=datasets.Dataset.from_dict({"prompt": [""] * cfg.sampling.tasks}),
            processing_class=job.table.tokenizer,
            peft_config=adapters(cfg.tuning),
        )

    if cfg.attempts.ahead:
        ranks = trainer.ranks.apart()
        job.ahead = NextStep(lambda state, step, closed: _made(job, catalogue, state, step, ranks, closed))
        trainer.before_weights = job.ahead.wait

    def values(step: int) -> dict[str, float]:
        return _values(job, trainer, step)

    def saved(folder: Path) -> None:
        # The last file of a checkpoint: where it stands, all the others do.
        pending = folder / f"{SAMPLER}.new"
        pending.write_text(job.state.model_dump_json(), encoding="utf-8")
        os.replace(pending, folder / SAMPLER)

    def after(step: int) -> None:
        if cfg.evaluation.every and step % cfg.evaluation.every == 0 and step < cfg.steps:
            _evaluate(job, trainer, step)

    def begun() -> None:
        if sharded(cfg.hardware) and not trainer.state.global_step:
            _evaluate(job, trainer, 0)

    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(
        RecordKeeper(job.writer, job.watch, lambda: trainer.ranks, values=values, saved=saved, after=after, begun=begun)
    )
    return trainer


def _made(
    job: ReinforcementJob,
    catalogue: Catalogue,
    state: SamplerState,
    step: int,
    ranks: Ranks,
    closed: Callable[[], bool] = lambda: False,
) -> TrainingStep:
    """The attempts that follow a sampler's state, by the policy after `step` updates, which the engine has."""
    cfg, drawing = job.cfg, job.drawing
    assert drawing is not None
    turns = horizon_at(cfg.horizon, step, cfg.steps)

    def stopped() -> bool:
        return closed() or job.table.stopped()

    table = replace(job.table, engine=drawing.source, stopped=stopped)

    def attempting(work: Sequence[tuple[TaskRow, int]], seed: str) -> list[TaskAttempt]:
        with drawing.using() as model:
            return attempt_all(table, model, work, turns, cfg.decoding, seed, f"step {step}", step)

    made = make_step(cfg, catalogue, job.rows, state, attempting, ranks, stopped)
    return replace(made, policy_step=step)


def _arguments(job: ReinforcementJob) -> GRPOConfig:
    cfg = job.cfg
    shared = trainer_arguments(job.folder, cfg.optimiser, cfg.limits, cfg.hardware, cfg.seed)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    attempts = cfg.sampling.tasks * cfg.sampling.rollouts
    if attempts % world:
        raise InputError(f"sampling: {attempts} attempts a step cannot be shared evenly by {world} processes")
    # With a budget of tokens a batch is a rank's whole share, of which the trainer makes micro batches.
    micro = (
        attempts // world if cfg.hardware.micro_tokens else micro_batch(attempts // world, cfg.optimiser.micro_batch)
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
        # TRL computes the reference's log-probabilities where beta is not 0; the penalty itself is ours.
        beta=cfg.kl.coefficient if reference else 0.0,
        loss_type="grpo",
        scale_rewards="none",
        router_aux_loss_coef=0.0,
        disable_dropout=True,
        shuffle_dataset=False,
        remove_unused_columns=False,
        # The rows are placeholders: which tasks a step tries is in the sampler's state.
        ignore_data_skip=True,
        **_engine(job),
    )


def _engine(job: ReinforcementJob) -> dict[str, Any]:
    """TRL's settings of a vLLM engine that it copies all weights to."""
    if not copied_by_trl(job.cfg, job.engine, job.server):
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


def _values(job: ReinforcementJob, trainer: AgentTrainer, step: int) -> dict[str, float]:
    """Numbers of the update, and of the attempts where it was the first on them, which are then written."""
    told = trainer.told
    assert told is not None
    values = told.sums.values(lambda sums: trainer.accelerator.reduce(sums.to(trainer.accelerator.device)))
    told.sums = Sums()
    if not job.cfg.kl.coefficient:
        del values["kl"]  # nothing measured it
    elif job.cfg.kl.place != "loss":
        values["kl"] = told.divergence
    if not told.advantages:
        return values
    kept = [a for a in told.advantages if a is not None]
    mean = sum(kept) / len(kept)
    horizon = horizon_at(job.cfg.horizon, step - 1, job.cfg.steps)
    values |= values_of(told.step.judged, told.step.seconds, job.watched)
    values |= {
        "advantage_std": (sum((a - mean) ** 2 for a in kept) / max(len(kept) - 1, 1)) ** 0.5,
        "flat_groups": told.masks.flat.double().mean().item(),
        "draws": float(told.step.draws),
        "horizon": float(horizon),
        "masked": 1 - told.masks.counted[told.step.kept].double().mean().item(),
        "policy_age": float(step - 1 - told.step.policy_step),
    }
    values["rollout_s"] = values.pop("step_s")
    if job.writer is not None:
        path = f"rollouts/step-{step:06d}.jsonl.gz"
        write_rollouts(job.folder / path, told.step.judged, told.advantages, told.step.policy_step, horizon)
        made = {"attempts": len(told.step.judged), "policy_step": told.step.policy_step}
        job.writer.artefact(step, "rollouts", path, **made)
        _say_gap(job.writer, job.cfg.correction, step, values)
        _say_lost(job.writer, told.step, step, job.cfg.masking)
    told.advantages = []
    return values


def _say_gap(writer: Writer, correction: Correction, step: int, values: Mapping[str, float]) -> None:
    gap, cut = values["sampling_gap"], values["sampling_truncated"]
    if not correction.alarm_gap or gap <= correction.alarm_gap:
        return
    done = "nothing corrects for it" if correction.kind == "none" else f"{cut:.1%} of the corrections were cut"
    writer.event(
        step,
        "warn",
        f"What drew the tokens and what learns from them are {gap:.3g} nats a token apart, more than the "
        f"{correction.alarm_gap:g} of correction.alarm_gap; {done}. Compare precision, sampling parameters and the "
        "server's --logprobs-mode (processed_logprobs).",
        alert="sampling_gap",
        gap=gap,
        truncated=cut,
    )


def _say_lost(writer: Writer, made: TrainingStep, step: int, masking: Masking) -> None:
    lost = [tried.attempt.note for tried, score in made.judged if score.masked == "infra_error"]
    if lost:
        message = f"{len(lost)} of {len(made.judged)} attempts were lost and are masked; the last one: {lost[-1][:500]}"
        writer.event(step, "warn", message, lost=len(lost))
    ended = sum(tried.attempt.outcome == "program_error" for tried, _ in made.judged)
    if ended:
        counted = "masked" if masking.program_errors else "counted as 0"
        words = program_error_words(made.judged)
        message = f"Programs ended {ended} of {len(made.judged)} attempts, which are {counted}: {words}"
        writer.event(step, "warn", message, program_errors=ended)
    if words := unknown_users_words(made.judged):
        writer.event(step, "warn", words)


def _evaluate(job: ReinforcementJob, trainer: AgentTrainer, step: int) -> bool:
    """Whether it was carried out to its end; a stop in between leaves no numbers of a part of the tasks."""
    cfg = job.cfg
    if not job.held_out:
        return True
    assert job.drawing is not None
    if job.ahead is not None:
        job.ahead.wait()
    job.drawing.publish(step)
    try:
        with job.drawing.using() as model:
            result = evaluate(
                replace(job.table, engine=job.drawing.source), model, job.held_out, cfg.evaluation, cfg.decoding,
                cfg.seed, ranks=trainer.ranks, name=f"step {step}", policy_step=step,
                masking=Masking(program_errors=cfg.masking.program_errors),
            )  # fmt: skip
    except StepStopped:
        return False
    job.results.append((step, result))
    write_values(job.writer, step, result.values())
    return True


def _keep_as_it_is(job: ReinforcementJob, trainer: AgentTrainer) -> None:
    """A checkpoint of the policy between two steps. At step 0 there is nothing to keep but the model it began with."""
    step = trainer.state.global_step
    folder = Path(trainer.args.output_dir) / f"checkpoint-{step}"
    if step and not (folder / SAMPLER).is_file():
        with disk_errors():
            trainer._save_checkpoint(trainer.model, trial=None)
            trainer.callback_handler.on_save(trainer.args, trainer.state, trainer.control)
