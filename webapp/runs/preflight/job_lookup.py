"""Resolution of a `NewJob`: its configuration, datasets, model, user and judge, and faults by field."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from synthesis.errors import InputError
from training import presets
from training.config import EvaluationJob, JobConfig, Reinforcement, Supervised, list_config_faults
from training.job import is_model_name
from webapp.datasets.file_uploads import format_first_problem
from webapp.datasets.models import Dataset, DatasetState, FileState, StoredFile
from webapp.endpoints.models import Endpoint
from webapp.endpoints.queries import find_choice, find_default_model
from webapp.runs.checkpoint_files import get_model_parts
from webapp.runs.models import Checkpoint, CheckpointState, TrainingJob, TrainingState
from webapp.runs.preflight.candidates import list_away_candidates, list_candidates
from webapp.runs.preflight.remarks import Remark
from webapp.runs.spec import AFTER, DEMO_MODEL, ENDPOINT, Method, NewJob

ENDED_BADLY = (TrainingState.FAILED, TrainingState.CANCELLED)
DEFAULTS = "defaults"
"""No preset: Envarium's own defaults."""
LONGEST_CHAIN = 50
"""Number of jobs that are followed to the origin of a model."""


@dataclass
class ResolvedJob:
    """Resolved job. A part that could not be found is None, and `problems` says why."""

    new: NewJob
    preset: str = ""
    changes: dict[str, Any] = field(default_factory=dict)
    config: JobConfig | None = None
    chosen: presets.ChangedPreset | None = None
    dataset: Dataset | None = None
    file: StoredFile | None = None
    evaluation: Dataset | None = None
    evaluation_file: StoredFile | None = None
    after: TrainingJob | None = None
    base: str = ""
    """The model that all began with, through every `after` and `ft:`."""
    loaded: str = ""
    """The model that a worker has to have or fetch by itself."""
    user: tuple[Endpoint, str] | None = None
    judge: tuple[Endpoint, str] | None = None
    problems: list[Remark] = field(default_factory=list)
    warnings: list[Remark] = field(default_factory=list)

    def refuse(self, param: str, code: str, message: str) -> None:
        self.problems.append(Remark(param=param, code=code, message=message))

    def warn(self, param: str, code: str, message: str) -> None:
        self.warnings.append(Remark(param=param, code=code, message=message))


def resolve_job(new: NewJob) -> ResolvedJob:
    """Resolve everything that a new job names; nothing is written."""
    resolved = ResolvedJob(new, loaded=new.model)
    resolved.dataset, resolved.file = _find_data(resolved, "training_file", new.dataset)
    if new.evaluation:
        resolved.evaluation, resolved.evaluation_file = _find_data(resolved, "validation_file", new.evaluation)
    _find_after(resolved)
    _find_model(resolved)
    _find_config(resolved)
    tries = new.method != "supervised" or bool(new.evaluation)
    resolved.user = _find_role_model(resolved, "user_model", "plays the user", "user", tries)
    resolved.judge = _find_role_model(resolved, "judge_model", "judges answers", "judge", tries)
    return resolved


def _find_data(asked: ResolvedJob, param: str, ident: str) -> tuple[Dataset | None, StoredFile | None]:
    if ident.startswith("ds-"):
        row = Dataset.objects.filter(public_id=ident).first()
        if row is None:
            asked.refuse(
                param, "dataset_not_found", f"There is no dataset {ident}. GET /datasets lists those there are."
            )
        elif row.state == DatasetState.FAILED:
            asked.refuse(param, "dataset_failed", f"The dataset {ident} could not be frozen: {row.error}")
        elif row.archived:
            message = f"The dataset {ident} is archived. Take it back from the archive, or name another."
            asked.refuse(param, "dataset_archived", message)
        return row, None
    if ident.startswith("file-"):
        file = StoredFile.objects.filter(public_id=ident, deleted_at=None).first()
        if file is None:
            asked.refuse(param, "file_not_found", f"There is no file {ident}. Upload it with POST /files.")
        elif file.state == FileState.ERROR:
            asked.refuse(param, "file_has_errors", f"The file {ident} has errors: {format_first_problem(file.report)}")
        return None, file
    message = f"{ident[:60]!r} names no data: give the id of a dataset (ds-…) or of an uploaded file (file-…)."
    asked.refuse(param, "invalid_id", message)
    return None, None


def _find_after(asked: ResolvedJob) -> None:
    ident = asked.new.after
    if not ident:
        return
    asked.after = TrainingJob.objects.filter(public_id=ident).first()
    if asked.after is None:
        asked.refuse("after", "job_not_found", f"There is no training job {ident[:60]!r} to come after.")
    elif asked.after.state in ENDED_BADLY:
        message = f"The job {ident} has {asked.after.state}: nothing comes after it. Name another one, or leave it out."
        asked.refuse("after", "job_ended", message)


def _find_model(asked: ResolvedJob) -> None:
    model = asked.new.model
    if model == AFTER:
        if not asked.new.after:
            message = (
                "The model is `after`, and no job is named by `after`. Name the job whose model this one goes on with."
            )
            asked.refuse("after", "missing", message)
        elif asked.after is not None:
            asked.base = get_base_model(asked.after)
        return
    if model.startswith("ft:"):
        _find_tuned(asked, model)
        return
    if model.startswith(ENDPOINT):
        _find_served(asked, model)
        return
    asked.base = model
    if model == DEMO_MODEL and asked.new.method == "evaluation":
        message = (
            f"{DEMO_MODEL} is built from what it learns, so nothing is there to evaluate: name the model of a job that "
            "began with it (ft:ftjob-…)."
        )
        asked.refuse("model", "untrained", message)
    if model == DEMO_MODEL and asked.new.method == "reinforcement":
        message = (
            f"{DEMO_MODEL} knows no words before it was taught some, so nothing can be learnt by trying: begin with "
            "supervised training, and go on with that job's model (ft:ftjob-…, or `after`)."
        )
        asked.refuse("model", "untrained", message)
    if model == DEMO_MODEL or not is_model_name(model):
        is_known = model == DEMO_MODEL
    else:
        is_known = "/" in model or any(
            model in candidate.models for candidate in [*list_candidates(), *list_away_candidates()]
        )
    if is_known:
        return  # whether a worker can load it now is said with the workers
    message = (
        f"There is no model {model[:100]!r}: take {DEMO_MODEL}, the model of a job (ft:ftjob-…), one that a worker "
        "lists, or organisation/name."
    )
    asked.refuse("model", "model_not_found", message)


def _find_served(asked: ResolvedJob, model: str) -> None:
    """Resolve a model behind an address: it can be asked, and learns nothing."""
    asked.base = model
    if asked.new.method != "evaluation":
        message = f"{model[:80]!r} is behind an address: it can be evaluated, not trained. Name a model with weights."
        asked.refuse("model", "not_trainable", message)
    elif find_choice(model.removeprefix(ENDPOINT)) is None:
        message = f"{model[:80]!r} is no model that an endpoint lists: give `{ENDPOINT}ID/model` of one that is."
        asked.refuse("model", "model_not_found", message)


_STANDS = {
    TrainingState.VALIDATING: "has not begun",
    TrainingState.QUEUED: "waits for a worker",
    TrainingState.RUNNING: "is running",
    TrainingState.PAUSED: "is paused",
    TrainingState.SUCCEEDED: "has succeeded",
    TrainingState.FAILED: "has failed",
    TrainingState.CANCELLED: "was cancelled",
}


def _find_tuned(asked: ResolvedJob, model: str) -> None:
    _, _, rest = model.partition(":")
    ident, _, step = rest.partition(":")
    job = TrainingJob.objects.filter(public_id=ident).first()
    if job is None:
        asked.refuse("model", "model_not_found", f"There is no training job {ident[:60]!r} whose model this could be.")
        return
    asked.base = get_base_model(job)
    rows = Checkpoint.objects.filter(job=job, state=CheckpointState.READY, superseded=False)
    if not step:
        if not rows.filter(final=True).exists():
            state_words = _STANDS[TrainingState(job.state)]
            message = f"The job {ident} {state_words} and has no final model. Name a checkpoint ({model[:60]}:step-N)"
            message += f", or let this job wait for it: model `{AFTER}` and after {ident}." if job.is_open else "."
            asked.refuse("model", "model_not_ready", message)
        return
    number = step.removeprefix("step-")
    is_step_name = number.isascii() and number.isdigit() and len(number) < 10 and step.startswith("step-")
    if not is_step_name or not rows.filter(step=int(number)).exists():
        step_names = [
            f"step-{kept_step}" for kept_step in rows.order_by("step").values_list("step", flat=True).distinct()[:20]
        ]
        message = f"The job {ident} has no checkpoint {step[:30]!r}; it has {', '.join(step_names) or 'none'}."
        asked.refuse("model", "checkpoint_not_found", message)
        return
    try:
        asked.loaded = get_model_parts(TrainingJob(model=model)).name or model
    except InputError as error:
        asked.refuse("model", "not_whole", str(error).removeprefix("model: "))


def iterate_model_chain(job: TrainingJob) -> Iterator[TrainingJob]:
    """Yield a job, the one whose model it begins with, and so on."""
    at: TrainingJob | None = job
    for _ in range(LONGEST_CHAIN):
        if at is None:
            return
        yield at
        if at.model == AFTER:
            at = at.after
        else:
            rows = TrainingJob.objects.filter(public_id=at.model.split(":")[1]) if at.model.startswith("ft:") else None
            at = rows.select_related("after").first() if rows is not None else None


def get_base_model(job: TrainingJob) -> str:
    """Return the model that a chain of jobs began with."""
    return list(iterate_model_chain(job))[-1].model


def get_origin_model(asked: ResolvedJob) -> str:
    """Return the model that all began with; of one that is served here by its endpoint, what its own job began with."""
    choice = find_choice(asked.base.removeprefix(ENDPOINT)) if asked.base.startswith(ENDPOINT) else None
    if choice is None or not choice[0].served_here:
        return asked.base
    job = TrainingJob.objects.filter(public_id=choice[1].removeprefix("ft:").partition(":")[0]).first()
    return get_base_model(job) if job is not None else asked.base


def get_default_preset(method: str, base: str) -> str:
    """Return the preset that is taken if none is named: the demo's for its model, else Envarium's defaults."""
    if base != DEMO_MODEL:
        return DEFAULTS
    return {"supervised": "demo-sft", "reinforcement": "demo-rl"}.get(method, "demo-evaluation")


def load_preset(name: str, method: Method) -> presets.Preset:
    """Return a preset by name; without one Envarium's defaults, each marked as ours. Raises InputError: no such
    preset."""
    if name and name != DEFAULTS:
        return presets.load_preset(name)
    kinds: dict[Method, type[JobConfig]] = {"supervised": Supervised, "reinforcement": Reinforcement}
    config = kinds.get(method, EvaluationJob)()
    own = presets.Mark(kind="ours", note="Envarium's default")
    return presets.Preset(
        name=DEFAULTS,
        title="Envarium's defaults",
        paper="",
        about="",
        config=config,
        marks={path: own for path, _ in presets.iterate_leaves(config)},
    )


def _find_config(asked: ResolvedJob) -> None:
    new = asked.new
    asked.preset = new.preset or get_default_preset(new.method, get_origin_model(asked))
    asked.changes = copy.deepcopy(new.changes)
    if new.seed is not None:
        asked.changes["seed"] = new.seed
    try:
        preset = load_preset(asked.preset, new.method)
    except InputError as error:
        asked.refuse("preset", "preset_not_found", str(error))
        return
    if preset.config.type != new.method:
        message = f"The preset {asked.preset} is for {preset.config.type}; this job's method is {new.method}."
        asked.refuse("preset", "wrong_method", message)
        return
    try:
        asked.chosen = presets.change_preset(preset, asked.changes)
        asked.config = asked.chosen.config
    except InputError as error:
        problems = (
            list_config_faults(error.__cause__) if isinstance(error.__cause__, ValidationError) else [("", str(error))]
        )
        for place, message in problems:
            param = f"changes.{place}" if place else "changes"
            asked.refuse(param, "invalid_value", f"{param}: {message}")
    except RecursionError:
        asked.refuse("changes", "invalid_value", "changes: is nested too deeply")


def _find_role_model(
    asked: ResolvedJob, param: str, does: str, role: str, makes_attempts: bool
) -> tuple[Endpoint, str] | None:
    """Return the endpoint and model that are named for a role; else the role's default, if the job makes attempts."""
    value = getattr(asked.new, param)
    if not value:
        return find_default_model(role) if makes_attempts else None
    chosen = find_choice(value)
    if chosen is None:
        message = f"{value[:80]!r} is no model that {does}: give `endpoint id/model` of one that is listed there."
        asked.refuse(param, "model_not_found", message)
    return chosen


def get_weight(weights: Mapping[Any, float], name: str) -> float:
    """Return the weight of a part of a mixture; 1 if it is not named, as in `training.config.Mixture`."""
    return weights.get(name, 1.0)
