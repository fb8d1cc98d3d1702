"""Demo tasks as a package, and models that solve them or do nothing."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

from synthesis.portable.package import PackageName, build_package_id, write_package
from synthesis.portable.task_file import PortableTask
from tests.fixtures.llm import Request, Scripted, calls, say
from training.examples.tasks import DemoTask, draw_tasks

NAMED = PackageName(id=build_package_id("Demo: tasks", "ds-0a1b2c3d4e"), version="1.0+abc", summary='A "demo"')
TASKS = draw_tasks(2, 1)
"""One of each environment."""


def portable(task: DemoTask) -> PortableTask:
    return PortableTask(id=task.rollout.key, environment=task.environment, category="demo", task=task.rollout)


def packaged(folder: Path) -> Path:
    """A wheel of all demo tasks, the last one held out."""
    rows = [portable(task) for task in TASKS]
    return write_package(folder, NAMED, {"train": rows[:-1], "test": rows[-1:]}, lambda: "# Demo", "MIT")


def unpacked(wheel: Path, folder: Path) -> Path:
    """The wheel as pip installs it."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def solving(request: Request) -> Scripted:
    """What does the reference's calls, one a turn, and then says its answer."""
    asked = {task.rollout.instruction: task.reference for task in TASKS}
    said = request["messages"]
    reference = asked[next(message["content"] for message in said if message["role"] == "user")]
    done = sum(len(message.get("tool_calls") or ()) for message in said)
    if done < len(reference.calls):
        return calls((reference.calls[done].tool, reference.calls[done].arguments))
    return say(reference.answer or "Done.")


def idle(request: Request) -> Scripted:
    return say("Done.")


Script = Callable[[Request], Scripted]
