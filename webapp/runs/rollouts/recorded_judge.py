"""The judge of a training job as its proxy recorded it: what executes an attempt again asks it, and nobody else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from synthesis.contracts import Message, Tool
from synthesis.errors import MalformedReply
from synthesis.llm.chat import Reply
from synthesis.verifiers.rubric import REPLY_CHARS, question_hash
from webapp.runs.models import JudgeReply, TrainingJob

MOST_REPLY = REPLY_CHARS + 1_000
"""So much of a reply is kept, and handed to the worker: enough to see that it is too long."""


class RecordedJudge:
    """A `ChatModel` that says what the job's judge said to the same messages when a worker asked it.

    `missing` is set once it is asked what no worker did.
    """

    def __init__(self, job: TrainingJob) -> None:
        self._job = job
        self.missing = False

    @property
    def name(self) -> str:
        return self._job.judge_model or "judge"

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        """Raises MalformedReply: the judge was never asked this."""
        question = question_hash((message.role, message.content) for message in messages)
        known = await JudgeReply.objects.filter(job=self._job, question=question).afirst()
        if known is None:
            self.missing = True
            raise MalformedReply("The judge of the job was asked nothing about this answer.")
        return Reply(message=Message(role="assistant", content=known.reply), model=known.model)
