"""Proxy of the LLMs that a job asks (user, judge, a policy that is evaluated): OpenAI's chat API, counted and capped.

The first reply of a judge to a question is stored: the same question has that reply from then on, and attempts that are
executed again are judged by it (`webapp.runs.rollouts.recorded_judge`).

One event loop a process holds the connections, so that an endpoint's own limit holds for all requests together. The
proxy never retries: the caller does, and the error says if that helps.
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
from synthesis.formats.values import clean_text
from synthesis.llm.chat import Reply
from synthesis.llm.wire import build_reply_message
from synthesis.verifiers.rubric import hash_question
from webapp.common.database.connections import release_connection
from webapp.common.errors import UpstreamError
from webapp.endpoints.connections import open_connection
from webapp.endpoints.models import Endpoint
from webapp.endpoints.services import open_endpoint
from webapp.runs.evaluations.progress import get_served_model
from webapp.runs.models import JudgeReply, TrainingJob
from webapp.runs.rollouts.recorded_judge import MOST_REPLY
from webapp.workers import claims
from webapp.workers.errors import CallsUsedUp, NoRoleModel, UnreadableQuestion

if TYPE_CHECKING:
    from synthesis.llm.client import Connection


CLOSE_SECONDS = 2.0
Role = Literal["user", "judge", "policy"]


def complete_chat(public_id: str, number: int, role: Role, body: dict[str, Any], user: Any = None) -> dict[str, Any]:
    """Return a chat completion by the model that plays the job's user, judges its answers, or is evaluated.

    Raises as `claims.held`; NoRoleModel; UnreadableQuestion; CallsUsedUp; UpstreamError.
    """
    job, _ = claims.require_attempt(public_id, number, user)
    if role == "judge":
        return _ask_judge(job, number, body)
    if role == "policy":
        return _ask_policy(job, number, body)
    reply = _ask_endpoint(job, number, "plays the user", job.user_endpoint, body | {"model": job.user_model})
    return serialize_reply(reply, job.user_model)


def _ask_policy(job: TrainingJob, number: int, body: dict[str, Any]) -> dict[str, Any]:
    """Return a turn of the model that an evaluation is about."""
    try:
        endpoint, model = get_served_model(job)
    except InputError as error:
        raise NoRoleModel(str(error)) from error
    return serialize_reply(_ask_endpoint(job, number, "is evaluated", endpoint, body | {"model": model}), model)


def _ask_judge(job: TrainingJob, number: int, body: dict[str, Any]) -> dict[str, Any]:
    """Return the first reply of the judge to these messages, asking for it if there is none yet. Of the request only
    its messages count, lest a worker ask until it gets the reply that it wants."""
    texts = [(message.get("role"), message.get("content")) for message in body["messages"]]
    if any(role not in ("user", "assistant") or not isinstance(text, str) for role, text in texts):
        raise UnreadableQuestion("messages: a judge is asked with messages of a user and an assistant, each a text.")
    question = hash_question(texts)
    judge_reply = JudgeReply.objects.filter(job=job, question=question).first()
    usage = Usage()
    if judge_reply is None:
        messages = [{"role": role, "content": text} for role, text in texts]
        asked = {"model": job.judge_model, "messages": messages, "temperature": 0.0}
        reply = _ask_endpoint(job, number, "judges answers", job.judge_endpoint, asked)
        usage = reply.usage
        text = clean_text((reply.message.content or "")[:MOST_REPLY])
        new_reply = JudgeReply(
            job=job, question=question, reply=text, model=clean_text(reply.model or job.judge_model)[:200]
        )
        JudgeReply.objects.bulk_create([new_reply], ignore_conflicts=True)
        judge_reply = JudgeReply.objects.get(job=job, question=question)
    reply_to_send = Reply(
        message=Message(role="assistant", content=judge_reply.reply), usage=usage, model=judge_reply.model
    )
    return serialize_reply(reply_to_send, job.judge_model)


def _ask_endpoint(job: TrainingJob, number: int, does: str, row: Endpoint | None, body: dict[str, Any]) -> Reply:
    """Return a reply of the endpoint, counted. Raises NoRoleModel, StaleClaim, CallsUsedUp, UpstreamError."""
    if row is None:
        raise NoRoleModel(f"The job {job.public_id} names no model that {does}, or its endpoint was deleted.")
    try:
        endpoint = open_endpoint(row)
    except InputError as error:
        raise UpstreamError("refused", str(error)) from error
    except LLMError as error:
        raise UpstreamError.of(error) from error
    _count_call(job, number)
    release_connection()
    try:
        reply = LOOP.ask(row, endpoint, body)
    except LLMError as error:
        raise UpstreamError.of(error) from error
    used = reply.usage.prompt_tokens + reply.usage.completion_tokens
    TrainingJob.objects.filter(pk=job.pk).update(call_tokens=F("call_tokens") + used)
    return reply


def _count_call(job: TrainingJob, number: int) -> None:
    """Count a request before it is sent. Raises StaleClaim, CallsUsedUp."""
    claim = claims.TrainingClaim.of(job, number)
    if claim.held().filter(calls_made__lt=F("calls_allowed")).update(calls_made=F("calls_made") + 1):
        return
    claim.require_held()
    raise CallsUsedUp(
        f"The job {job.public_id} has made the {job.calls_allowed:,} requests to LLMs that it is allowed."
    )


def serialize_reply(reply: Reply, model: str) -> dict[str, Any]:
    """Return a reply in the form of OpenAI's chat API."""
    message, usage = build_reply_message(reply.message), reply.usage
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
    """Event loop in a thread of its own, started by the first request, with a connection for each endpoint."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: asyncio.AbstractEventLoop | None = None
        self._opened: dict[int, tuple[object, Connection]] = {}
        self._asking: Counter[Connection] = Counter()

    def ask(self, row: Endpoint, endpoint: Any, body: dict[str, Any]) -> Reply:
        """Return the reply of an endpoint. Raises LLMError."""
        return asyncio.run_coroutine_threadsafe(self._ask(row, endpoint, body), self._get_loop()).result()

    def _get_loop(self) -> asyncio.AbstractEventLoop:
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
        """Return the cached connection; replace it if the endpoint changed. The old one closes after its last
        request."""
        cached = self._opened.get(row.pk)
        if cached is not None and cached[0] == row.updated_at:
            return cached[1]
        fresh = open_connection(endpoint.model_copy(update={"max_retries": 0}))
        self._opened[row.pk] = (row.updated_at, fresh)
        if cached is not None:
            await self._close_if_unused(cached[1])
        return fresh

    async def _close_if_unused(self, connection: Connection) -> None:
        # Requests under way keep a replaced connection open; the last of them closes it.
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
