"""Responses of the API of training jobs, in OpenAI's shapes; Envarium's own fields are in `envarium`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from training.config import TrainingConfig
from training.presets import Difference
from webapp.common.rest.types import Json
from webapp.runs.openai.config_schemas import EvaluationChanges, ReinforcementChanges, SupervisedChanges


class JobErrorOut(Schema):
    code: str
    message: str
    param: str | None


class EnvariumOut(Schema):
    """`sentence` has to be shown beside every result, `evaluation_sentence` beside those on the dataset that evaluates
    it. `wish` was asked of a running job and is not obeyed yet. `reason`: why it is paused, or why it waits (in
    lists only why no worker that is here can take it). `doubt`: what its worker reported and is not true; empty if
    nothing was found, and once a person has resumed the job in spite of it."""

    name: str
    preset: str
    changes: SupervisedChanges | ReinforcementChanges | EvaluationChanges
    config: TrainingConfig
    dataset: str
    sentence: str
    evaluation_sentence: str | None
    evaluation: str | None
    after: str | None
    engine: str
    user_model: str
    judge_model: str
    step: int
    total_steps: int
    wish: str
    reason: str
    doubt: str
    attempt: int
    worker: str | None
    infra_errors: int
    program_errors: int
    calls_made: int
    calls_allowed: int
    started_at: datetime | None
    estimate: Json
    result: Json
    created_by: str | None


class SupervisedHyperparametersOut(Schema):
    """OpenAI's names; `learning_rate_multiplier` is `auto` while the rate is the preset's."""

    n_epochs: float
    batch_size: int
    learning_rate_multiplier: Literal["auto"] | None


class ReinforcementHyperparametersOut(Schema):
    """OpenAI's names; `batch_size` are tasks a step, `eval_interval` steps between evaluations."""

    batch_size: int
    eval_interval: int
    learning_rate_multiplier: Literal["auto"] | None


class NoHyperparametersOut(Schema):
    """OpenAI's old place for hyperparameters holds those of supervised training alone."""

    model_config = ConfigDict(extra="forbid")


class SupervisedOut(Schema):
    hyperparameters: SupervisedHyperparametersOut
    preset: str
    changes: SupervisedChanges


class ReinforcementOut(Schema):
    hyperparameters: ReinforcementHyperparametersOut
    preset: str
    changes: ReinforcementChanges
    steps: int


class EvaluatedOut(Schema):
    preset: str
    changes: EvaluationChanges


class SupervisedMethodOut(Schema):
    type: Literal["supervised"]
    supervised: SupervisedOut


class ReinforcementMethodOut(Schema):
    type: Literal["reinforcement"]
    reinforcement: ReinforcementOut


class EvaluationMethodOut(Schema):
    type: Literal["evaluation"]
    evaluation: EvaluatedOut


MethodOut = Annotated[SupervisedMethodOut | ReinforcementMethodOut | EvaluationMethodOut, Field(discriminator="type")]


class TrainingJobOut(Schema):
    """OpenAI's `fine_tuning.job`. `status` may also be `paused`. `training_file` is the dataset that is learnt from.
    `estimated_finish` is when the last step ends at the pace of the last ones; null if that cannot be known."""

    id: str
    object: Literal["fine_tuning.job"]
    created_at: int
    finished_at: int | None
    estimated_finish: int | None
    status: str
    model: str
    fine_tuned_model: str | None
    organization_id: str
    training_file: str
    validation_file: str | None
    result_files: list[str]
    hyperparameters: SupervisedHyperparametersOut | NoHyperparametersOut
    method: MethodOut
    seed: int
    trained_tokens: int | None
    error: JobErrorOut | None
    integrations: list[Json]
    metadata: dict[str, str]
    envarium: EnvariumOut


class RemarkOut(Schema):
    param: str
    code: str
    message: str


class PreflightOut(Schema):
    """Answer to `dry_run`. Values that cannot be known are null, with the reason in their note."""

    object: Literal["fine_tuning.preflight"]
    ok: bool
    problems: list[RemarkOut]
    warnings: list[RemarkOut]
    sentence: str
    preset: str
    config: TrainingConfig | None
    changed: list[Difference]
    steps: int | None
    steps_note: str
    tokens: Json
    memory: Json
    memory_note: str
    time: Json
    time_note: str
    queue: Json


class TrainingJobList(Schema):
    object: Literal["list"]
    data: list[TrainingJobOut]
    has_more: bool


class TrainingEventOut(Schema):
    id: str
    object: Literal["fine_tuning.job.event"]
    created_at: int
    level: str
    message: str
    type: str
    data: Json


class TrainingEventList(Schema):
    object: Literal["list"]
    data: list[TrainingEventOut]
    has_more: bool


class CheckpointOut(Schema):
    """`metrics` are the numbers of its step, under OpenAI's names and ours. `final` is the model it ended with."""

    id: str
    object: Literal["fine_tuning.job.checkpoint"]
    created_at: int
    fine_tuned_model_checkpoint: str
    fine_tuning_job_id: str
    step_number: int
    metrics: dict[str, float]
    sentence: Annotated[
        str, Field(description="What has to be shown with its evaluations: what was held out, by what.")
    ]
    final: bool
    state: str
    bytes: int


class CheckpointList(Schema):
    object: Literal["list"]
    data: list[CheckpointOut]
    first_id: str | None
    last_id: str | None
    has_more: bool


class CheckpointFileOut(Schema):
    """`url` takes `Range`."""

    path: str
    bytes: int
    sha256: str
    url: str


class CheckpointFileList(Schema):
    """Files that make a model of a checkpoint that is `ready`."""

    object: Literal["list"]
    data: list[CheckpointFileOut]
    has_more: bool


class KeyOut(Schema):
    """`label` and `unit` of a key of whole steps; a part's (`environment/ID/reward`) are those of its last word."""

    name: str
    label: str
    unit: str
    last_step: int
    last_value: float | None


class BucketOut(Schema):
    """Steps `first` to `last_step`: `points`, of which `gaps` were not finite numbers; the attempts behind `unverified`
    of them were not executed again on this site (yet), or came out otherwise."""

    first: int
    last_step: int
    points: int
    gaps: int
    min: float | None
    max: float | None
    mean: float | None
    last: float | None
    unverified: int


class SeriesOut(Schema):
    """`width` steps a bucket; with 1 each step is its own."""

    name: str
    width: int
    buckets: list[BucketOut]


class MetricsOut(Schema):
    """`sentence` has to be shown beside every result, `evaluation_sentence` beside those on the dataset it is evaluated
    on, if that is another one."""

    job: str
    sentence: str
    evaluation_sentence: str | None
    keys: list[KeyOut]
    series: list[SeriesOut]


class RunRolloutOut(Schema):
    """One attempt of a step. `masked` and `quarantined` say why it does not count."""

    id: int
    step: Annotated[int, Field(validation_alias="file.step")]
    attempt: Annotated[int, Field(validation_alias="file.attempt")]
    index: int
    row: str
    environment: str
    task_id: int | None
    revision_id: int | None
    verifier: str
    setting: str
    ordinal: int
    outcome: str
    user_error: bool
    user_fault: str
    masked: str
    reward: float | None
    advantage: float | None
    turns: int
    tokens: int
    horizon: int
    policy_step: int
    quarantined: str
    trajectory_id: int | None


class RunRolloutList(Schema):
    object: Literal["list"]
    data: list[RunRolloutOut]
    has_more: bool


class AttemptLogOut(Schema):
    """One claim of a job by a worker. `log` is the end of its process's output."""

    attempt: Annotated[int, Field(validation_alias="number")]
    worker: Annotated[str | None, Field(validation_alias="worker.public_id")] = None
    from_step: int
    state: str
    exit: str
    message: str
    log: str
    started_at: datetime
    ended_at: datetime | None


class LogsOut(Schema):
    data: list[AttemptLogOut]


class MarkOut(Schema):
    """`published` names the place in a paper, `released` that in its authors' code, `ours` the reason."""

    kind: str
    note: str


class PresetValueOut(Schema):
    path: str
    value: Json
    mark: MarkOut


class PresetOut(Schema):
    name: str
    title: str
    paper: str
    about: str
    method: str
    config: TrainingConfig
    values: list[PresetValueOut]


class PresetList(Schema):
    object: Literal["list"]
    data: list[PresetOut]


class ModelOut(Schema):
    """OpenAI's `model`: a value that `model` of a job may have."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(Schema):
    object: Literal["list"]
    data: list[ModelOut]
