"""Mapping between OpenAI's shape of training jobs and the rows here."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Sequence
from typing import Any

from training.config import EvaluationJob, JobConfig, Reinforcement, Supervised, read_config
from training.metrics import NAMES, Name
from webapp.common.errors import FieldFault, RefusedFields
from webapp.common.rest.openai_lists import to_unix_seconds
from webapp.datasets.queries import get_sentence
from webapp.runs.curves.result_files import list_result_file_ids
from webapp.runs.models import Checkpoint, MetricKey, TrainingEvent, TrainingJob, TrainingState
from webapp.runs.openai.request_schemas import (
    MethodIn,
    ReinforcementHyperparameters,
    SupervisedHyperparameters,
    TrainingJobIn,
)
from webapp.runs.preflight.candidates import list_candidates
from webapp.runs.preflight.estimates import estimate_seconds_left
from webapp.runs.preflight.job_checks import Preflight
from webapp.runs.preflight.job_lookup import resolve_job
from webapp.runs.preflight.matching import format_waiting_reason
from webapp.runs.preflight.remarks import RefusedJob, Remark
from webapp.runs.spec import NewJob
from webapp.runs.transitions import NOT_TRUE

AT_CHECKPOINT = {"loss": "train_loss", "token_accuracy": "train_mean_token_accuracy"}
"""OpenAI's names of the metrics of a checkpoint."""
HELD_OUT = ["evaluation/reward", "evaluation/success", "evaluation/sampled/success"]
TOLD_AT_CHECKPOINT = [*AT_CHECKPOINT, "reward", "success", *HELD_OUT]
FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "supervised": {"n_epochs": ("epochs",), "batch_size": ("batch",)},
    "reinforcement": {"batch_size": ("sampling", "tasks"), "eval_interval": ("evaluation", "every")},
    "evaluation": {},
}
"""Which fields of the configuration OpenAI's hyperparameters are."""
RATE = ("optimiser", "learning_rate")


def parse_new_job(body: TrainingJobIn) -> NewJob:
    """Return the job that a request's body asks for. Raises RefusedFields: one value is given in two places."""
    method = body.method or MethodIn(type="supervised")
    chosen = method.chosen
    hyper = getattr(chosen, "hyperparameters", None) or body.hyperparameters
    changes = copy.deepcopy(dict(chosen.changes)) if chosen else {}
    for name, place in FIELDS[method.type].items():
        value = getattr(hyper, name, None)
        if value is not None:
            _put_change(changes, place, value, name)
    asked = NewJob(
        method=method.type,
        model=body.model,
        dataset=body.training_file,
        evaluation=body.validation_file or "",
        preset=chosen.preset if chosen else "",
        changes=changes,
        name=(body.suffix or "").strip(),
        after=body.after,
        engine=body.engine,
        user_model=body.user_model,
        judge_model=body.judge_model,
        calls_allowed=body.calls_allowed,
        seed=body.seed,
        metadata=body.metadata or {},
    )
    return _apply_rate(asked, hyper)


def _apply_rate(asked: NewJob, hyper: SupervisedHyperparameters | ReinforcementHyperparameters | None) -> NewJob:
    multiplier = hyper.learning_rate_multiplier if hyper is not None else None
    config = resolve_job(asked).config if multiplier is not None else None
    if multiplier is None or config is None or isinstance(config, EvaluationJob):
        return asked  # what does not fit is said when the job is looked up
    changes = copy.deepcopy(asked.changes)
    _put_change(changes, RATE, config.optimiser.learning_rate * multiplier, "learning_rate_multiplier")
    return asked.model_copy(update={"changes": changes})


def _put_change(changes: dict[str, Any], place: tuple[str, ...], value: Any, name: str) -> None:
    *above, last = place
    table = changes
    for part in above:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            return  # the configuration's own check names it
    if last in table:
        path = ".".join(place)
        fault = FieldFault(("body", "method", name), f"Is given in changes.{path} too", "twice")
        raise RefusedFields(f"{name}: changes.{path} says it too; keep one of them.", [fault])
    table[last] = value


STOPS = (".", "!", "?", "…")


def to_refused_fields(error: RefusedJob, method: str) -> RefusedFields:
    """Convert a refused job, with the field of the client's body that each remark is about."""
    faults = [
        FieldFault(("body", *_get_body_place(remark, method)), remark.message, remark.code) for remark in error.remarks
    ]
    more = f" {len(faults) - 1} more: see errors." if len(faults) > 1 else ""
    message = faults[0].message if not more or faults[0].message.endswith(STOPS) else f"{faults[0].message}."
    return RefusedFields(f"{message}{more}", faults, code=faults[0].code)


def _get_body_place(remark: Remark, method: str) -> tuple[str, ...]:
    parts = tuple(remark.param.split("."))
    return ("method", method, *parts) if parts[0] in ("preset", "changes") else parts


def serialize_method(job: TrainingJob, config: JobConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return OpenAI's `method` of a job and its old `hyperparameters`."""
    if isinstance(config, EvaluationJob):
        return {"type": job.method, job.method: {"preset": job.preset, "changes": job.changes}}, {}
    if isinstance(config, Supervised):
        hyper: dict[str, Any] = {"n_epochs": config.epochs, "batch_size": config.batch}
    else:
        hyper = {"batch_size": config.sampling.tasks, "eval_interval": config.evaluation.every}
    rate = (job.changes.get("optimiser") or {}).get("learning_rate")
    hyper["learning_rate_multiplier"] = "auto" if rate is None else None
    chosen = {"hyperparameters": hyper, "preset": job.preset, "changes": job.changes}
    if isinstance(config, Reinforcement):
        chosen["steps"] = config.steps
    return {"type": job.method, job.method: chosen}, hyper if isinstance(config, Supervised) else {}


def serialize_jobs(jobs: Sequence[TrainingJob]) -> list[dict[str, Any]]:
    """Return rows as `TrainingJobOut` takes them."""
    left = estimate_seconds_left(jobs)
    return [_serialize_row(job, left.get(job.pk)) for job in jobs]


def serialize_job(job: TrainingJob) -> dict[str, Any]:
    serialized = serialize_jobs([job])[0]
    if job.state == TrainingState.QUEUED:
        serialized["envarium"]["reason"] = format_waiting_reason(job, list_candidates())
    return serialized


def _serialize_row(job: TrainingJob, left: float | None) -> dict[str, Any]:
    config = read_config(job.config)
    method, hyper = serialize_method(job, config)
    return {
        "id": job.public_id,
        "object": "fine_tuning.job",
        "created_at": to_unix_seconds(job.created_at),
        "finished_at": to_unix_seconds(job.finished_at),
        "estimated_finish": round(time.time() + left) if left is not None else None,
        "status": job.state,
        "model": job.model,
        "fine_tuned_model": job.fine_tuned_model or None,
        "organization_id": "envarium",
        "training_file": job.dataset.public_id,
        "validation_file": job.evaluation.public_id if job.evaluation else None,
        "result_files": list_result_file_ids(job),
        "hyperparameters": hyper,
        "method": method,
        "seed": int(job.config.get("seed", 0)),
        "trained_tokens": job.trained_tokens or None,
        "error": _serialize_error(job),
        "integrations": [],
        "metadata": job.metadata,
        "envarium": _serialize_own_fields(job, config),
    }


def _serialize_error(job: TrainingJob) -> dict[str, Any] | None:
    """Return the errors on the job's page: first the untrue reports of its worker, then why it failed."""
    words = [f"{NOT_TRUE} {job.doubt}"] if job.doubt else []
    words += [job.error] if job.error else []
    if not words and not job.error_code:
        return None
    reason = "not_true" if job.doubt else job.error_code or "failed"
    return {"code": reason, "message": "\n".join(words), "param": job.error_param or None}


def _serialize_own_fields(job: TrainingJob, config: JobConfig) -> dict[str, Any]:
    plain = (
        "name preset changes engine step total_steps wish reason doubt attempt infra_errors program_errors "
        "calls_made calls_allowed started_at estimate result"
    )
    return {name: getattr(job, name) for name in plain.split()} | {
        "config": config,
        "dataset": job.dataset.public_id,
        "sentence": get_sentence(job.dataset, "not frozen yet"),
        "evaluation_sentence": get_sentence(job.evaluation, "not frozen yet") if job.evaluation else None,
        "evaluation": job.evaluation.public_id if job.evaluation else None,
        "after": job.after.public_id if job.after else None,
        "user_model": f"{job.user_endpoint_id}/{job.user_model}" if job.user_endpoint_id else "",
        "judge_model": f"{job.judge_endpoint_id}/{job.judge_model}" if job.judge_endpoint_id else "",
        "worker": job.worker or None,
        "created_by": job.created_by.username if job.created_by else None,
    }


def serialize_preflight(result: Preflight) -> dict[str, Any]:
    return {"object": "fine_tuning.preflight", "ok": result.ok} | result.model_dump(mode="json")


def serialize_event(event: TrainingEvent) -> dict[str, Any]:
    return {
        "id": event.public_id,
        "object": "fine_tuning.job.event",
        "created_at": to_unix_seconds(event.at),
        "level": event.level,
        "message": event.message,
        "type": event.kind if event.kind in ("message", "metrics") else "message",
        "data": {"step": event.step, "attempt": event.attempt, "kind": event.kind} | event.data,
    }


def serialize_checkpoint(row: Checkpoint, job: TrainingJob, numbers: dict[str, float]) -> dict[str, Any]:
    """Return a checkpoint as OpenAI spells it; `numbers` are those of its step."""
    metrics = {AT_CHECKPOINT.get(name, name): value for name, value in numbers.items()}
    return {
        "id": row.public_id,
        "object": "fine_tuning.job.checkpoint",
        "created_at": to_unix_seconds(row.created_at),
        "fine_tuned_model_checkpoint": f"ft:{job.public_id}" + ("" if row.final else f":step-{row.step}"),
        "fine_tuning_job_id": job.public_id,
        "step_number": row.step,
        "metrics": {"step": float(row.step)} | metrics,
        "sentence": get_sentence(job.evaluation or job.dataset, "not frozen yet"),
        "final": row.final,
        "state": row.state,
        "bytes": row.bytes,
    }


def serialize_keys(keys: Iterable[MetricKey]) -> list[dict[str, Any]]:
    return [serialize_key(key) for key in keys]


def find_metric_name(key: str) -> Name | None:
    """Return the trainers' name of a number, of a job, an environment or a node; None for an unknown key."""
    return NAMES.get(key) or NAMES.get(key.rpartition("/")[2])


def serialize_key(key: MetricKey) -> dict[str, Any]:
    metric = find_metric_name(key.name)
    return {
        "name": key.name,
        "label": metric.label if metric else key.name,
        "unit": metric.unit if metric else "",
        "last_step": key.last_step,
        "last_value": key.last_value,
    }
