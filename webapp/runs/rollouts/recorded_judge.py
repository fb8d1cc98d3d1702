"""Judge of a training job as its proxy recorded it: the only judge that a repeated execution of an attempt asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from synthesis.contracts import Message, Tool
from synthesis.errors import MalformedReply
from synthesis.llm.chat import Reply
from synthesis.verifiers.rubric import REPLY_CHARS, hash_question
from webapp.runs.models import JudgeReply, TrainingJob

MOST_REPLY = REPLY_CHARS + 1_000
"""Length of a reply that is kept and sent to the worker: enough to see that it is too long."""


class RecordedJudge:
    """`ChatModel` that repeats the replies of the job's judge to the same messages from a worker.

    `missing` is set once it is asked a question that no worker asked.
    """

    def __init__(self, job: TrainingJob) -> None:
        self._job = job
        self.missing = False

    @property
    def name(self) -> str:
        return self._job.judge_model or "judge"

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        """Return the recorded reply. Raises MalformedReply: the judge was never asked this."""
        question = hash_question((message.role, message.content) for message in messages)
        recorded = await JudgeReply.objects.filter(job=self._job, question=question).afirst()
        if recorded is None:
            self.missing = True
            raise MalformedReply("The judge of the job was not asked about this answer.")
        return Reply(message=Message(role="assistant", content=recorded.reply), model=recorded.model)
