"""Labels and headings of the settings of a training job on pages."""

from __future__ import annotations

LABELS: dict[str, str] = {
    "epochs": "Epochs",
    "batch": "Sequences a step",
    "max_length": "Longest sequence",
    "too_long": "Longer ones",
    "samples": "Samples",
    "thinking": "Earlier reasoning",
    "steps": "Steps",
    "reward": "Reward",
    "seed": "Seed",
    "sampling.environments": "Environments a step",
    "sampling.tasks": "Tasks a step",
    "sampling.rollouts": "Attempts a task",
    "horizon.kind": "Horizon",
    "horizon.turns@constant": "Turns",
    "horizon.turns@list": "Horizons",
    "horizon.every@list": "Each lasts",
    "horizon.first": "First horizon",
    "horizon.increment": "Grows by",
    "horizon.every@increment": "Every",
    "horizon.cap": "Longest horizon",
    "horizon.phases": "Phases",
    "decoding.temperature": "Temperature",
    "decoding.top_p": "Top p",
    "decoding.turn_tokens": "Tokens a turn",
    "decoding.trajectory_tokens": "Tokens an attempt",
    "attempts.at_once": "Attempts at once",
    "attempts.deadline_s": "Deadline of an attempt",
    "attempts.unusable": "Unusable turns in a row",
    "advantage.kind": "Advantage",
    "advantage.epsilon": "Added to deviations",
    "loss.form": "Form of the loss",
    "loss.clip_low": "Clip below",
    "loss.clip_high": "Clip above",
    "loss.updates": "Passes over attempts",
    "kl.coefficient": "KL coefficient",
    "kl.to": "KL to which policy",
    "kl.place": "KL where",
    "kl.estimator": "KL estimator",
    "masking.meu": "Mask user errors",
    "masking.meu_scope": "Mask which of them",
    "dynamic_sampling.enabled": "Dynamic sampling",
    "dynamic_sampling.rounds": "Draws at most",
    "dynamic_sampling.drop": "Drop flat groups",
    "tuning.kind": "Weights",
    "tuning.rank": "Rank",
    "tuning.alpha": "Alpha",
    "tuning.dropout": "Dropout",
    "tuning.target": "Layers",
    "optimiser.learning_rate": "Learning rate",
    "optimiser.schedule": "Its course",
    "optimiser.warmup_steps": "Warm-up",
    "optimiser.weight_decay": "Weight decay",
    "optimiser.max_grad_norm": "Gradient norm",
    "optimiser.micro_batch": "Micro batch",
    "optimiser.precision": "Precision",
    "mixture.environments": "Environments",
    "mixture.settings": "Settings",
    "evaluation.every": "Evaluate every",
    "evaluation.tasks": "Held-out tasks",
    "evaluation.rollouts": "Attempts a task",
    "evaluation.turns": "Horizon",
    "evaluation.temperature": "Temperature",
    "evaluation.top_p": "Top p",
    "limits.hours": "Wall time",
    "limits.checkpoint_every": "Checkpoint every",
    "limits.checkpoints_kept": "Checkpoints kept",
    "limits.infra_error_share": "Pause above",
}
"""By path; where a field of two variants differs, with the variant behind `@`."""

UNITS: dict[str, str] = {
    "batch": "sequences",
    "max_length": "tokens",
    "steps": "steps",
    "horizon.turns": "turns",
    "horizon.every": "steps",
    "horizon.first": "turns",
    "horizon.increment": "turns",
    "horizon.cap": "turns",
    "decoding.turn_tokens": "tokens",
    "decoding.trajectory_tokens": "tokens",
    "attempts.deadline_s": "s",
    "optimiser.warmup_steps": "steps",
    "optimiser.micro_batch": "sequences",
    "evaluation.every": "steps",
    "evaluation.tasks": "tasks",
    "evaluation.turns": "turns",
    "limits.hours": "h",
    "limits.checkpoint_every": "steps",
    "limits.infra_error_share": "of a step's attempts",
}

SHARED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Weights and optimiser", ("tuning", "optimiser")),
    ("Mixture of environments and settings", ("mixture",)),
    ("Evaluation on the held-out split", ("evaluation",)),
    ("Limits, checkpoints and seed", ("limits", "seed")),
)
GROUPS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "supervised": (
        ("How long, on what", ("epochs", "batch", "max_length", "too_long", "samples", "thinking")),
        *SHARED,
    ),
    "reinforcement": (
        ("How long, how many attempts", ("steps", "sampling", "attempts")),
        ("Horizon and decoding", ("horizon", "decoding")),
        ("Reward and advantage", ("reward", "advantage")),
        ("Loss and divergence", ("loss", "kl")),
        ("Masking and dynamic sampling", ("masking", "dynamic_sampling")),
        *SHARED,
    ),
}
"""Headings with the beginnings of the paths below them."""

METHODS: dict[str, str] = {
    "supervised": "Supervised fine-tuning (SFT) on trajectories",
    "reinforcement": "Reinforcement learning (RL) on tasks",
}
KIND_OF: dict[str, str] = {"supervised": "trajectories", "reinforcement": "tasks"}
"""What each method learns from."""

BASICS_OF_JOB: dict[str, str] = {
    "method": "Method",
    "model": "Model",
    "dataset": "Dataset",
    "evaluation": "Evaluated on",
    "preset": "Preset",
    "after": "After",
    "engine": "Engine",
    "user_model": "Who plays the user",
    "calls_allowed": "Requests to LLMs",
    "metadata": "Metadata",
}
"""Fields of a job beside its configuration and its name."""
