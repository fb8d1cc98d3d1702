"""Proxy of the LLMs that a job asks (user, judge, a policy that is evaluated): OpenAI's chat API, counted and capped.

What a judge is asked and says first is kept: the same question has that reply from then on, and attempts that are
executed again are judged by it (`webapp.runs.rollouts.recorded_judge`).

One event loop a process holds the connections, so that an endpoint's own limit holds for all requests together. It
tries nothing again: who asks does, and is told when that helps.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import secrets
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from django.db.models import F

from synthesis.contracts import Message, Usage
from synthesis.errors import InputError, LLMError
from synthesis.formats.values import clean
from synthesis.llm.chat import Reply
from synthesis.llm.wire import reply_message
from synthesis.verifiers.rubric import question_hash
from webapp.database.connections import release_connection
from webapp.endpoints.connections import connect
from webapp.endpoints.models import Endpoint
from webapp.endpoints.services import opened
from webapp.errors import UpstreamError
from webapp.runs.evaluations.progress import served_model
from webapp.runs.models import JudgeReply, TrainingJob
from webapp.runs.rollouts.recorded_judge import MOST_REPLY
from webapp.workers import claims
from webapp.workers.errors import CallsUsedUp, NoRoleModel, UnreadableQuestion

if TYPE_CHECKING:
    from synthesis.llm.client import Connection


CLOSE_SECONDS = 2.0
Role = Literal["user", "judge", "policy"]


def complete(public_id: str, number: int, role: Role, body: dict[str, Any], user: Any = None) -> dict[str, Any]:
    """A chat completion by the model that plays the job's user, judges its answers, or is evaluated.

    Raises as `claims.held`; NoRoleModel; UnreadableQuestion; CallsUsedUp; UpstreamError.
    """
    job, _ = claims.held(public_id, number, user)
    if role == "judge":
        return _judged(job, number, body)
    if role == "policy":
        return _evaluated(job, number, body)
    reply = _asked(job, number, "plays the user", job.user_endpoint, body | {"model": job.user_model})
    return spelled(reply, job.user_model)


def _evaluated(job: TrainingJob, number: int, body: dict[str, Any]) -> dict[str, Any]:
    """A turn of the model that an evaluation is about."""
    try:
        endpoint, model = served_model(job)
    except InputError as error:
        raise NoRoleModel(str(error)) from error
    return spelled(_asked(job, number, "is evaluated", endpoint, body | {"model": model}), model)


def _judged(job: TrainingJob, number: int, body: dict[str, Any]) -> dict[str, Any]:
    """The first reply of the judge to these messages; asked for where there is none yet. Of the request only its
    messages count, lest a worker ask until it hears what it wants."""
    texts = [(message.get("role"), message.get("content")) for message in body["messages"]]
    if any(role not in ("user", "assistant") or not isinstance(text, str) for role, text in texts):
        raise UnreadableQuestion("messages: a judge is asked with messages of a user and an assistant, each a text.")
    question = question_hash(texts)
    known = JudgeReply.objects.filter(job=job, question=question).first()
    usage = Usage()
    if known is None:
        messages = [{"role": role, "content": text} for role, text in texts]
        asked = {"model": job.judge_model, "messages": messages, "temperature": 0.0}
        reply = _asked(job, number, "judges answers", job.judge_endpoint, asked)
        usage = reply.usage
        text = clean((reply.message.content or "")[:MOST_REPLY])
        made = JudgeReply(job=job, question=question, reply=text, model=clean(reply.model or job.judge_model)[:200])
        JudgeReply.objects.bulk_create([made], ignore_conflicts=True)
        known = JudgeReply.objects.get(job=job, question=question)
    said = Reply(message=Message(role="assistant", content=known.reply), usage=usage, model=known.model)
    return spelled(said, job.judge_model)


def _asked(job: TrainingJob, number: int, does: str, row: Endpoint | None, body: dict[str, Any]) -> Reply:
    """A reply of the endpoint, counted. Raises NoRoleModel, StaleClaim, CallsUsedUp, UpstreamError."""
    if row is None:
        raise NoRoleModel(f"The job {job.public_id} names no model that {does}, or its endpoint was deleted.")
    try:
        endpoint = opened(row)
    except InputError as error:
        raise UpstreamError("refused", str(error)) from error
    except LLMError as error:
        raise UpstreamError.of(error) from error
    _count(job, number)
    release_connection()
    try:
        reply = LOOP.ask(row, endpoint, body)
    except LLMError as error:
        raise UpstreamError.of(error) from error
    used = reply.usage.prompt_tokens + reply.usage.completion_tokens
    TrainingJob.objects.filter(pk=job.pk).update(call_tokens=F("call_tokens") + used)
    return reply


def _count(job: TrainingJob, number: int) -> None:
    """Count a request before it is sent. Raises StaleClaim, CallsUsedUp."""
    claim = claims.TrainingClaim.of(job, number)
    if claim.held().filter(calls_made__lt=F("calls_allowed")).update(calls_made=F("calls_made") + 1):
        return
    claim.require_held()
    raise CallsUsedUp(
        f"The job {job.public_id} has made the {job.calls_allowed:,} requests to LLMs that it is allowed."
    )


def spelled(reply: Reply, model: str) -> dict[str, Any]:
    """A reply as OpenAI's chat API spells it."""
    message, usage = reply_message(reply.message), reply.usage
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": reply.model or model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason or "stop"}],
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        },
    }


class Loop:
    """An event loop in a thread of its own, begun with the first request, with a connection an endpoint."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: asyncio.AbstractEventLoop | None = None
        self._opened: dict[int, tuple[object, Connection]] = {}
        self._asking: Counter[Connection] = Counter()

    def ask(self, row: Endpoint, endpoint: Any, body: dict[str, Any]) -> Reply:
        """Raises LLMError."""
        return asyncio.run_coroutine_threadsafe(self._ask(row, endpoint, body), self._begun()).result()

    def _begun(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._running is None:
                self._running = asyncio.new_event_loop()
                threading.Thread(target=self._running.run_forever, name="llm-proxy", daemon=True).start()
            return self._running

    async def _ask(self, row: Endpoint, endpoint: Any, body: dict[str, Any]) -> Reply:
        connection = await self._connection(row, endpoint)
        self._asking[connection] += 1
        try:
            return await connection.completion(body)
        finally:
            self._asking[connection] -= 1
            await self._close_if_unused(connection)

    async def _connection(self, row: Endpoint, endpoint: Any) -> Connection:
        """Return the one that is open, unless the endpoint was changed: then it closes after what still runs on it."""
        known = self._opened.get(row.pk)
        if known is not None and known[0] == row.updated_at:
            return known[1]
        made = connect(endpoint.model_copy(update={"max_retries": 0}))
        self._opened[row.pk] = (row.updated_at, made)
        if known is not None:
            await self._close_if_unused(known[1])
        return made

    async def _close_if_unused(self, connection: Connection) -> None:
        if self._asking[connection] or any(connection is current for _, current in self._opened.values()):
            return
        del self._asking[connection]
        await connection.aclose()

    def close(self) -> None:
        """Close all connections as the process ends."""
        with self._lock:
            loop, self._running = self._running, None
        if loop is None:
            return

        async def close_connections() -> None:
            opened = [connection for _, connection in self._opened.values()]
            self._opened.clear()
            await asyncio.gather(*(connection.aclose() for connection in opened), return_exceptions=True)

        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(close_connections(), loop).result(CLOSE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)


LOOP = Loop()
atexit.register(LOOP.close)
