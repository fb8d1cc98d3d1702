"""A kit whose models are small scripts, and the shelf of boxes as the records that stages hand to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import CheckRecord, Message, Tool, ToolCall
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from synthesis.llm import Reply
from synthesis.llm.asker import Asker
from synthesis.llm.store import MemoryStore
from synthesis.runtime import Sandbox
from synthesis.stages import Kit, StageSettings
from tests.rollout.support import CHECKS, INSTRUCTION, SOURCE

Answer = Callable[[Sequence[Message]], Message]
RECORD = EnvironmentRecord(
    key="shelf",
    name="Shelf",
    introduction="A shelf of boxes.",
    rules=("Only its owner's box may be opened.",),
    class_name="Shelf",
    source=SOURCE,
    tools=(ToolRecord(name="find_box"), ToolRecord(name="open_box", kind="change")),
)
SCENARIO = ScenarioDraft(name="Two boxes", state={"shelf": "north"})
TASK = TaskDraft(
    title="Open Ada's box",
    instruction=INSTRUCTION,
    checklist=("Ada's box is open.", "Bo's is not."),
    checks=tuple(CheckRecord(source=source) for source in CHECKS),
)


@dataclass
class Scripted:
    """A model that answers by a function of the messages, or by a list of answers in their order."""

    answers: Answer | list[Message | Exception]
    name: str = "scripted"
    asked: list[tuple[Sequence[Message], Sequence[Tool], dict[str, Any]]] = field(default_factory=list)

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        self.asked.append((messages, tools, parameters))
        if callable(self.answers):
            return Reply(message=self.answers(messages))
        found = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(found, Exception):
            raise found
        return Reply(message=found)


def say(words: str) -> Message:
    return Message(role="assistant", content=words)


def call(name: str, **arguments: Any) -> Message:
    return Message(role="assistant", reasoning=f"{name} it is.", tool_calls=(ToolCall(name=name, arguments=arguments),))


def kit(sandbox: Sandbox, settings: StageSettings | None = None, **models: Scripted) -> Kit:
    return Kit(
        asker=Asker(models, MemoryStore()),
        sandbox=sandbox,
        path="shelf/scenario-0/task-0/work-0",
        theme="shelf",
        threads=ThreadPoolExecutor(1),
        settings=settings or StageSettings(),
    )
