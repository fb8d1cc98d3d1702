"""API schemas of what is stored beside human work."""

from __future__ import annotations

from typing import Annotated, Any

from ninja import Schema
from pydantic import Field

from webapp.common.rest.paging import PageQuery
from webapp.common.rest.types import Id


class BesideQuery(PageQuery):
    """Exactly one of `batch` and `job`."""

    batch: Annotated[Id | None, Field(description="What this batch stored beside human work.")] = None
    job: Annotated[Id | None, Field(description="What the import that this job ran stored beside human work.")] = None


class VersionBesideOut(Schema):
    """A version of an environment, and the current one."""

    id: int
    number: int
    environment_id: int
    environment: str
    is_current: bool
    current_version_id: int | None
    current_number: int | None
    chosen_by: Annotated[str | None, Field(description="The user who made or chose the current version.")]

    @staticmethod
    def resolve_environment(version: Any) -> str:
        return str(version.environment.name)

    @staticmethod
    def resolve_is_current(version: Any) -> bool:
        return bool(version.environment.current_id == version.pk)

    @staticmethod
    def resolve_current_version_id(version: Any) -> int | None:
        return version.environment.current_id

    @staticmethod
    def resolve_current_number(version: Any) -> int | None:
        return version.environment.current.number if version.environment.current is not None else None

    @staticmethod
    def resolve_chosen_by(version: Any) -> str | None:
        return str(version.environment.current_by) if version.environment.current_by is not None else None


class RevisionBesideOut(Schema):
    """A revision of a task, and the current one."""

    id: int
    number: int
    task_id: int
    task: str
    is_current: bool
    current_revision_id: int | None
    current_number: int | None
    chosen_by: Annotated[str | None, Field(description="The user who made or chose the current revision.")]
    review_state: Annotated[str, Field(description="Of the task. Adopting a revision reopens an approval.")]

    @staticmethod
    def resolve_task(revision: Any) -> str:
        return str(revision.task.title)

    @staticmethod
    def resolve_is_current(revision: Any) -> bool:
        return bool(revision.task.current_id == revision.pk)

    @staticmethod
    def resolve_current_revision_id(revision: Any) -> int | None:
        return revision.task.current_id

    @staticmethod
    def resolve_current_number(revision: Any) -> int | None:
        return revision.task.current.number if revision.task.current is not None else None

    @staticmethod
    def resolve_chosen_by(revision: Any) -> str | None:
        return str(revision.task.current_by) if revision.task.current_by is not None else None

    @staticmethod
    def resolve_review_state(revision: Any) -> str:
        return str(revision.task.review_state)
