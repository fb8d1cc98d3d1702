"""A tiny model with a template that is trained, tasks and a table, for tests of what trains."""

from __future__ import annotations

import contextlib
import functools
import random
from pathlib import Path
from typing import Any

import torch

from synthesis.contracts import Message, ToolCall
from synthesis.runtime import get_default_sandbox
from training.attempts import Table
from training.config import Attempts
from training.dataset import TaskRow
from training.demo.model import build_model, build_tokenizer
from training.examples.datasets import build_task_row, make_demonstrations
from training.examples.tasks import DemoTask, draw_tasks
from training.policy import Generation
from training.templates import render_conversation, serialize_message

torch.set_num_threads(1)


@functools.cache
def tasks(each: int = 6) -> tuple[DemoTask, ...]:
    return tuple(draw_tasks(7, each))


@functools.cache
def lessons() -> tuple[Any, ...]:
    return tuple(make_demonstrations(get_default_sandbox(), tasks(), 7, careless=0.5))


def rows(each: int = 6) -> list[TaskRow]:
    return [build_task_row(task) for task in tasks(each)]


@functools.cache
def tokenizer() -> Any:
    return build_tokenizer([lesson.trl() for lesson in lessons()])


def model(seed: int = 0) -> Any:
    return build_model(tokenizer(), seed)


def table(at_once: int = 8, **rest: Any) -> Table:
    return Table(get_default_sandbox(), tokenizer(), Attempts(at_once=at_once, deadline_s=30), **rest)


def saved(folder: Path, seed: int = 0) -> str:
    model(seed).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


def written(message: Message) -> list[int]:
    """The ids that a model would have to write for a message."""
    said = {"role": "user", "content": "x"}
    before = render_conversation(tokenizer(), [said], (), prompt=True)
    whole = render_conversation(tokenizer(), [said, serialize_message(message)], (), prompt=False)
    return tokenizer().encode(whole[len(before) :].removesuffix("\n"), add_special_tokens=False)


class ScriptedEngine:
    """Writes given messages, or ids, turn after turn; each attempt's turn comes with its seed (`...:TURN`)."""

    name = "scripted"

    def __init__(self, script: dict[str, list[Message | list[int]]]) -> None:
        self.script = script
        self.open = contextlib.nullcontext
        self.asked: list[tuple[tuple[int, ...], int]] = []

    def heard(self) -> float:
        return 0.0

    async def generate(self, ids: Any, most: int, seed: str) -> Generation:
        self.asked.append((tuple(ids), most))
        _, key, _, turn = seed.rsplit(":", 3)
        said = self.script[key][int(turn) - 1]
        tokens = written(said) if isinstance(said, Message) else said
        tokens = tokens[:most]
        dice = random.Random(seed)
        cut = not tokens or tokens[-1] != tokenizer().eos_token_id
        return Generation(tuple(tokens), tuple(-dice.random() for _ in tokens), cut)


def asks(tool: str, **arguments: Any) -> Message:
    return Message(role="assistant", tool_calls=(ToolCall(name=tool, arguments=arguments),))


def says(text: str) -> Message:
    return Message(role="assistant", content=text)


def solution(task: DemoTask) -> list[Message | list[int]]:
    return [*(asks(call.tool, **call.arguments) for call in task.reference.calls), says("Done.")]
