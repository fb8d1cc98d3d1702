"""Request bodies and queries of the API of training jobs, in OpenAI's shapes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from ninja import Schema
from pydantic import BeforeValidator, ConfigDict, Field, FiniteFloat, WithJsonSchema, model_validator

from training.config import EngineKind
from webapp.common.rest.openai_lists import A_PAGE, After, PublicId
from webapp.common.rest.types import BodyIn, Id, Position, ShortText, Text
from webapp.runs.curves.series import MOST_BUCKETS
from webapp.runs.openai.config_schemas import EvaluationChanges, ReinforcementChanges, SupervisedChanges

Method = Literal["supervised", "reinforcement", "evaluation"]


def _auto_to_none(value: Any) -> Any:
    return None if value == "auto" else value


def _allow_auto(number: dict[str, Any]) -> list[Any]:
    return [BeforeValidator(_auto_to_none), WithJsonSchema({"anyOf": [{"const": "auto"}, number, {"type": "null"}]})]


Epochs = Annotated[Annotated[int, Field(ge=1, le=1_000)] | None, *_allow_auto({"type": "integer", "minimum": 1})]
Batch = Annotated[Annotated[int, Field(ge=1, le=65_536)] | None, *_allow_auto({"type": "integer", "minimum": 1})]
Multiplier = Annotated[
    Annotated[FiniteFloat, Field(gt=0, le=1_000_000)] | None, *_allow_auto({"type": "number", "exclusiveMinimum": 0})
]
PresetName = Annotated[
    ShortText,
    Field(
        max_length=64,
        description="See `/fine_tuning/presets`; `defaults`: Envarium's. Left out: that, or the demo's for its model.",
    ),
]


class SupervisedHyperparameters(BodyIn):
    """OpenAI's names. `auto`, or left out: the preset's value."""

    n_epochs: Epochs = None
    batch_size: Batch = None
    learning_rate_multiplier: Multiplier = None


class ReinforcementHyperparameters(BodyIn):
    """OpenAI's names; `batch_size` are tasks a step, `eval_interval` steps between evaluations."""

    batch_size: Batch = None
    learning_rate_multiplier: Multiplier = None
    eval_interval: Epochs = None


class SupervisedIn(BodyIn):
    hyperparameters: SupervisedHyperparameters | None = None
    preset: PresetName = ""
    changes: SupervisedChanges = Field(default_factory=dict)


class ReinforcementIn(BodyIn):
    """There is no `grader`: each task brings its verifier."""

    hyperparameters: ReinforcementHyperparameters | None = None
    preset: PresetName = ""
    changes: ReinforcementChanges = Field(default_factory=dict)


class EvaluationIn(BodyIn):
    """Evaluation without training: the model attempts the tasks of `training_file`.
    `/fine_tuning/jobs/{job}/evaluation` has the results."""

    preset: PresetName = ""
    changes: EvaluationChanges = Field(default_factory=dict)


class MethodIn(BodyIn):
    """Method of a job. `evaluation` is Envarium's own."""

    type: Method
    supervised: SupervisedIn | None = None
    reinforcement: ReinforcementIn | None = None
    evaluation: EvaluationIn | None = None

    @property
    def chosen(self) -> SupervisedIn | ReinforcementIn | EvaluationIn | None:
        """Part of the body about the method that it names."""
        return {"supervised": self.supervised, "reinforcement": self.reinforcement}.get(self.type, self.evaluation)

    @model_validator(mode="after")
    def _require_one_method(self) -> Self:
        parts = {"supervised": self.supervised, "reinforcement": self.reinforcement, "evaluation": self.evaluation}
        if any(given is not None for name, given in parts.items() if name != self.type):
            raise ValueError(f"the type is {self.type}: leave the other method out")
        return self


EXAMPLE: dict[str, Any] = {
    "model": "envarium-demo",
    "training_file": "ds-0123456789abcdef01234567",
    "method": {"type": "supervised", "supervised": {"preset": "demo-sft", "changes": {"epochs": 4}}},
    "suffix": "first try",
    "metadata": {"run": "a"},
}


class TrainingJobIn(BodyIn):
    """As OpenAI's `fine_tuning.jobs.create`. Envarium's own: `after`, `engine`, `user_model`, `judge_model`,
    `calls_allowed`, `dry_run`, and `preset` and `changes` of a method."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    model: Annotated[
        Text,
        Field(
            min_length=1,
            max_length=300,
            description="`envarium-demo`, `after`, `ft:JOB`, `ft:JOB:step-N`, a name that a worker lists, or (to be "
            "evaluated) `endpoint:ID/model`.",
        ),
    ]
    training_file: Annotated[PublicId, Field(min_length=1, description="`ds-…`, or an uploaded `file-…`.")]
    validation_file: Annotated[PublicId | None, Field(description="Tasks to evaluate on.")] = None
    method: MethodIn | None = None
    hyperparameters: Annotated[
        SupervisedHyperparameters | None, Field(description="OpenAI's old place for those of supervised training.")
    ] = None
    suffix: Annotated[Text, Field(max_length=64, description="The job's name.")] | None = None
    seed: Position | None = None
    metadata: (
        Annotated[
            dict[Annotated[Text, Field(max_length=64)], Annotated[Text, Field(max_length=512)]], Field(max_length=16)
        ]
        | None
    ) = None
    after: Annotated[PublicId, Field(description="Wait until this job has succeeded.")] = ""
    engine: Annotated[EngineKind, Field(description="What draws the tokens of RL.")] = "transformers"
    user_model: Annotated[Text, Field(max_length=300, description="`endpoint id/model` that plays the user.")] = ""
    judge_model: Annotated[
        Text,
        Field(max_length=300, description="`endpoint id/model` that decides the facts of rubrics."),
    ] = ""
    calls_allowed: Annotated[int, Field(ge=0, le=100_000_000, description="Requests to LLM roles at most.")] = 100_000
    dry_run: Annotated[bool, Field(description="Only say what would happen; nothing is stored.")] = False

    @model_validator(mode="after")
    def _require_one_place(self) -> Self:
        if self.hyperparameters and self.method and (self.method.type != "supervised" or self.method.supervised):
            raise ValueError("hyperparameters: give them inside method.supervised, and leave them out here")
        return self


class ResumeJobIn(BodyIn):
    """Higher limits; those left out remain."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"hours": 24}]})

    hours: Annotated[FiniteFloat, Field(gt=0, le=1_440, description="Of wall time, over all attempts.")] | None = None
    calls_allowed: Annotated[int, Field(ge=0, le=100_000_000)] | None = None


class JobsQuery(Schema):
    after: After = ""
    limit: Annotated[int, Field(ge=1, le=200, description=A_PAGE)] = 20


class DryRunQuery(Schema):
    dry_run: Annotated[bool, Field(description="Only say what would happen; nothing is stored.")] = False


class EventsQuery(Schema):
    after: After = ""
    limit: Annotated[int, Field(ge=1, le=1_000, description=A_PAGE)] = 20


class MetricsQuery(Schema):
    keys: Annotated[
        Text, Field(max_length=20_000, description="Names with commas between; left out: whole steps'.")
    ] = ""
    from_step: Annotated[Position | None, Field(description="The first step; left out: from the start.")] = None
    to_step: Annotated[Position | None, Field(description="The last step; left out: to the end.")] = None
    resolution: Annotated[int, Field(ge=1, le=MOST_BUCKETS, description="Buckets of a key at most.")] = 500


class RolloutsQuery(Schema):
    step: Annotated[Position, Field(description="The step whose attempts are listed.")]
    order: Annotated[
        Literal["-advantage", "advantage", "index"], Field(description="`-` is the highest first; `index`: as made.")
    ] = "-advantage"
    after: Annotated[Id | None, Field(description="The id of the last row of the page before.")] = None
    limit: Annotated[int, Field(ge=1, le=200, description=A_PAGE)] = 50
