"""A dataset of tasks as a package for `verifiers`: its rows, and the sources that attempt and reward them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from django.conf import settings

from synthesis.errors import FormatError
from synthesis.portable.package import PackageName, build_package_id, write_package
from synthesis.portable.sources import hash_sources
from synthesis.portable.task_file import PortableTask
from training.dataset import Manifest, SideName, TaskRow
from training.dataset.files import SIDES
from webapp.common.templatetags.show import plain
from webapp.datasets.export.record_shapes import format_evaluation_command
from webapp.datasets.models import Dataset

Parsed = Callable[[SideName], Iterator[dict[str, Any]]]


def get_package_id(dataset: Dataset) -> str:
    """Return the name of the dataset's package, for pip and for `verifiers`."""
    return build_package_id(dataset.name, dataset.public_id)


def write_wheel(dataset: Dataset, manifest: Manifest, parsed: Parsed, folder: Path) -> Path:
    """Write the package into a folder. `parsed` gives a side's frozen rows, and may raise to stop.

    Its version names content and sources: with the same ones it has the same bytes. Raises FormatError: a row is no
    task.
    """
    package = PackageName(
        id=get_package_id(dataset),
        version=f"1.0+{manifest.sha256[:8]}.{hash_sources()[:8]}",
        summary=f"{plain(manifest.name)}: {plain(manifest.sentence)}"[:200],
    )
    roles = Asked()
    sides: dict[str, Iterator[PortableTask]] = {
        side: roles.note_rows(_parse_tasks(parsed(side))) for side in SIDES if getattr(manifest, side).rows
    }
    licence = (settings.BASE_DIR / "LICENSE").read_text(encoding="utf-8")
    return write_package(folder, package, sides, lambda: _format_readme(package, manifest, roles), licence)


class Asked:
    """Roles beside the agent that the tasks need."""

    def __init__(self) -> None:
        self.user = self.judge = False

    def note_rows(self, rows: Iterable[PortableTask]) -> Iterator[PortableTask]:
        for row in rows:
            self.user = self.user or row.setting == "conversation"
            self.judge = self.judge or row.task.asks_judge
            yield row


def _parse_tasks(rows: Iterable[dict[str, Any]]) -> Iterator[PortableTask]:
    for number, record in enumerate(rows, 1):
        try:
            row = TaskRow.model_validate(record)
        except ValueError as error:
            raise FormatError(f"row {number}", f"is no task: {str(error)[:300]}") from error
        yield PortableTask(
            id=row.id, environment=row.environment, category=row.category, setting=row.setting, task=row.rollout
        )


def _format_readme(named: PackageName, manifest: Manifest, asked: Asked) -> str:
    licence = manifest.report.licence if manifest.report is not None else ""
    parts = [
        f"# {named.id}",
        f"{named.summary.rstrip('.')}.",
        f"{manifest.train.rows:,} tasks to learn from, {manifest.test.rows:,} held out (`--env.taskset.side test`). "
        f"Licence of the tasks: {' '.join(plain(licence).split()) or 'not stated'}. The sources are under MIT.",
        "```sh",
        format_evaluation_command(named.id),
        "```",
        "The package brings harness, sandbox and checks: tools run in processes that are locked in (best on Linux), a "
        "reward is the verdict of the checks on the state in the end, and what the infrastructure spoilt is an error "
        "without a reward. `vf-validate` tries, without a model, that doing nothing does not solve a task.",
    ]
    if asked.user:
        parts.append("Conversations: name who plays the user, `--env.agent.harness.user.model`, `...user.base-url`.")
    if asked.judge:
        parts.append("Rubrics: name who judges, `--env.agent.harness.judge.model`, `...judge.base-url`.")
    return "\n\n".join(parts).replace("```sh\n\n", "```sh\n").replace("\n\n```\n", "\n```\n") + "\n"
