"""Warnings of a new job's objective: losses that do not act as their names say, rates and steps beyond reason."""

from __future__ import annotations

from training.config import Lora, Reinforcement, Supervised
from webapp.runs.preflight.job_lookup import ResolvedJob, get_origin_model
from webapp.runs.spec import DEMO_MODEL

DEVIATING = ("group", "environment", "global", "global_baseline")
"""Advantages that are divided by a deviation."""
GSPO_CLIP = (3e-4, 4e-4)
"""Below and above 1, in GSPO's experiments (arXiv 2507.18071, 5.1; TRL's paper index repeats them): ratios of whole
sequences, by their length, hardly leave 1."""
GSPO_MOST = 0.01
"""Ours: some thirty times GSPO's own. Wider, it clips nothing that a job shows."""
CLIPPING = ("loss.form", "loss.clip_low", "loss.clip_high")
DAPO_CLIP = (0.2, 0.28)
"""DAPO (arXiv 2503.14476, 4.1): Clip-Higher leaves more room above than below."""
CISPO_BOUNDS = (4.0, 5.0, 8.0)
"""Largest weights that ScaleRL tries (arXiv 2510.13786: min(ratio, bound), which hardly differ); TRL's `epsilon_high`,
which is such a bound as well, is recommended as 5. MiniMax-M1 (arXiv 2506.13585), whose bound is 1 + epsilon as here,
tunes it alone and names no value. The bound 5 is a clip_high of 4."""
CISPO_LEAST, CISPO_MOST = 1.0, 10.0
"""Ours, of clip_high: outside of them the bound lies far from all that were tried."""
RATES = {("supervised", "full"): 2e-4, ("supervised", "lora"): 2e-3, ("reinforcement", "full"): 1e-5,
         ("reinforcement", "lora"): 5e-4}  # fmt: skip
"""Peak learning rates above which a pretrained model usually falls apart. The papers have 1e-6 to 1e-4 (AG's SFT)."""
LEAST_RATE = 1e-8
MOST_STEPS = 5_000
MOST_EPOCHS = 20.0


def check_loss(asked: ResolvedJob, config: Reinforcement) -> None:
    """Warn of forms of the loss whose clip or advantage does not act as in their papers."""
    loss = config.loss
    if loss.form == "trajectory" and not loss.dual_clip:
        _warn_of_unbounded_ratio(asked, loss.updates)
    if loss.form == "dr_grpo" and config.advantage.kind in DEVIATING:
        message = (
            "Dr. GRPO takes no deviation: divided by one, tasks that are nearly always or never solved weigh most, "
            "which it was made to end. Take changes.advantage.kind = mean."
        )
        asked.warn("changes.advantage.kind", "deviation_in_dr_grpo", message)
    if loss.form == "gspo" and max(loss.clip_low, loss.clip_high) > GSPO_MOST:
        message = (
            f"GSPO's ratio is of a whole attempt by its number of tokens and hardly leaves 1: {loss.clip_low:g} and "
            f"{loss.clip_high:g} clip nothing. Its paper has {GSPO_CLIP[0]:g} and {GSPO_CLIP[1]:g} "
            "(changes.loss.clip_low, clip_high)."
        )
        asked.warn("changes.loss.clip_high", "clip_off", message)
    if loss.form == "cispo" and not CISPO_LEAST <= loss.clip_high <= CISPO_MOST:
        does = "holds nearly every weight" if loss.clip_high < CISPO_LEAST else "holds none"
        message = (
            f"CISPO holds the weights of tokens at 1 + clip_high, and {loss.clip_high:g} {does}. ScaleRL tries bounds "
            f"of {CISPO_BOUNDS[0]:g} to {CISPO_BOUNDS[-1]:g}, which are a clip_high of {CISPO_BOUNDS[0] - 1:g} to "
            f"{CISPO_BOUNDS[-1] - 1:g}; MiniMax-M1 names no value."
        )
        asked.warn("changes.loss.clip_high", "clip_off", message)
    if loss.form == "dapo" and loss.clip_high <= loss.clip_low and _was_chosen(asked):
        message = (
            f"DAPO leaves more room above than below, {DAPO_CLIP[0]:g} and {DAPO_CLIP[1]:g} (Clip-Higher); with "
            f"{loss.clip_low:g} and {loss.clip_high:g} that is off. Raise changes.loss.clip_high."
        )
        asked.warn("changes.loss.clip_high", "clip_higher_off", message)


def _was_chosen(asked: ResolvedJob) -> bool:
    """Return whether the job names its form or clip itself, or differs in them from a preset, which has its reasons."""
    named = asked.changes.get("loss")
    if isinstance(named, dict) and any(path.removeprefix("loss.") in named for path in CLIPPING):
        return True
    marks = asked.chosen.marks if asked.chosen is not None else {}
    return any(marks[path].kind == "changed" for path in CLIPPING if path in marks)


def _warn_of_unbounded_ratio(asked: ResolvedJob, updates: int) -> None:
    """Warn of an unbounded loss: the ratio of a whole attempt is a product of all its tokens', and min(r A, clip(r) A)
    = r A has no bound below 0."""
    message = (
        "The ratio of a whole attempt has no bound if the attempt was a bad one (advantage below 0): after the "
        "first pass over a step's attempts a single one can decide an update. Set changes.loss.dual_clip (3 is "
        "customary), or take another loss.form."
    )
    if updates == 1:
        message += " With one pass over attempts (loss.updates) ratios stay near 1."
    asked.warn("changes.loss.dual_clip", "no_dual_clip", message)


def check_course(asked: ResolvedJob, config: Supervised | Reinforcement) -> None:
    """Warn of learning rates, steps and epochs beyond reason. The demo's tiny model has reasons of its own."""
    rate, tuning = config.optimiser.learning_rate, "lora" if isinstance(config.tuning, Lora) else "full"
    if get_origin_model(asked) == DEMO_MODEL:
        return
    most = RATES[config.type, tuning]
    if rate > most:
        weights = "adapters" if tuning == "lora" else "all weights"
        message = (
            f"A learning rate of {rate:g} is beyond reason: {config.type} training of {weights} usually falls apart "
            f"above {most:g}. Lower changes.optimiser.learning_rate."
        )
        asked.warn("changes.optimiser.learning_rate", "rate_too_high", message)
    elif rate < LEAST_RATE:
        message = f"With a learning rate of {rate:g} hardly anything is learnt: raise changes.optimiser.learning_rate."
        asked.warn("changes.optimiser.learning_rate", "rate_too_low", message)
    if isinstance(config, Reinforcement):
        if config.steps > MOST_STEPS:
            message = (
                f"{config.steps:,} steps are beyond reason: the papers' RL takes a few hundred, and each step makes "
                f"{config.sampling.tasks * config.sampling.rollouts:,} attempts. Lower changes.steps."
            )
            asked.warn("changes.steps", "too_many_steps", message)
        if config.optimiser.warmup_steps >= config.steps:
            message = (
                f"The rate grows over {config.optimiser.warmup_steps:,} steps, and the job has {config.steps:,}: it "
                "never reaches the learning rate. Lower changes.optimiser.warmup_steps."
            )
            asked.warn("changes.optimiser.warmup_steps", "warmup_too_long", message)
    elif config.epochs > MOST_EPOCHS:
        message = (
            f"{config.epochs:g} passes over the data are beyond reason: a model learns them by heart. Lower "
            "changes.epochs."
        )
        asked.warn("changes.epochs", "too_many_epochs", message)
