"""API of the training demo and of the installation of what training needs."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest
from ninja import Router, Schema
from pydantic import ConfigDict, Field

from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.types import BodyIn
from webapp.jobs.schemas import JobOut
from webapp.runs.local import installation
from webapp.runs.local.demo import train_demo
from webapp.runs.openai import conversion
from webapp.runs.openai.response_schemas import TrainingJobOut

router = Router(tags=["training"])


class DemoIn(BodyIn):
    """`seed` draws tasks, teachers and the model's first weights."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"seed": 0}]})

    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0


class DemoOut(Schema):
    """The two jobs: `reinforcement` begins with the model that `supervised` ends with."""

    supervised: TrainingJobOut
    reinforcement: TrainingJobOut


class InstallationOut(Schema):
    """State of the packages for training beside the site; `job` is the newest that installed them, or tried to."""

    state: str
    sentence: str
    size: str
    job: JobOut | None


@router.post("/training/demo", auth=require_scope("train"), response={202: DemoOut})
@idempotent
def train_the_demo(request: HttpRequest, body: DemoIn) -> tuple[int, dict[str, object]]:
    """Train the demo: a tiny model copies a careless teacher (SFT), then unlearns the habit (RL).

    Its environments, tasks and lessons are brought in first, if they are not here; the jobs wait for that.
    """
    first, second = train_demo(get_acting_user(request), body.seed)
    return 202, {"supervised": conversion.serialize_job(first), "reinforcement": conversion.serialize_job(second)}


@router.get("/training/installation", auth=require_scope("read"), response=InstallationOut)
def get_training_installation(request: HttpRequest) -> dict[str, object]:
    """Say whether a worker beside this site can train, or how far installing what it needs is."""
    state = installation.get_installation_state()
    return {"state": state.kind, "sentence": state.sentence, "size": state.size, "job": state.job}


@router.post("/training/installation", auth=require_scope("train"), response={202: JobOut})
@idempotent
def install_training(request: HttpRequest) -> tuple[int, object]:
    """Install what training needs, beside the running site. Refused if it is installed, or not by this site."""
    return 202, installation.start_installation(get_acting_user(request))
