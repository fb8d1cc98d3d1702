"""An episode as its host holds it: calls go out, checked replies come back, and a lost child stays lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple

from synthesis.contracts import CallError, CallResult, Limits, Patch, State
from synthesis.errors import EpisodeLost, ProgramEnded, ReplayMismatch, SandboxLost, StateError
from synthesis.runtime import frames
from synthesis.runtime.child import wire
from synthesis.runtime.pool import Pool
from synthesis.runtime.process import Child

_encode = json.JSONEncoder(separators=(",", ":")).encode


_OURS = ("closed", "sandbox")
"""Reasons of a loss that say nothing about the program."""


class Link:
    """Request and reply with one child. Any breach of the protocol, and any time-out, ends the child."""

    def __init__(self, child: Child, pool: Pool) -> None:
        self.child = child
        self.pool = pool
        self.limits: Limits = pool.limits
        self.number = 0
        self.busy_seconds = 0.0
        self.sending_seconds = 0.0
        """How long the child took to read a large request: that counts against its answer."""
        self.lost: EpisodeLost | None = None
        self.told: Callable[[], None] | None = None
        """Called when the child is let go of: whoever waits for its socket would hear nothing any more."""

    def send(self, payload: bytes) -> None:
        """Send one request. Raises EpisodeLost."""
        if self.lost is not None:
            raise type(self.lost)(self.lost.reason, self.lost.detail)
        try:
            if len(payload) < wire.PART:
                wire.send(self.child.sock, payload)
                return
            started = time.monotonic()
            wire.send(self.child.sock, payload, self.limits.call_seconds)
            self.sending_seconds = time.monotonic() - started
        except wire.FrameError as error:
            raise self.lose(error.reason, error.detail) from None
        except BaseException:
            # A signal handler of the host raised in mid-frame: the protocol is out of step.
            self.lose("closed", "interrupted")
            raise

    def ask(self, body: str) -> dict[str, Any]:
        """Send a request of this body, and give the checked reply. Raises EpisodeLost."""
        self.begin(body)
        return self.receive(self.number)

    def begin(self, body: str) -> None:
        """Send a request of this body; `receive` takes the reply. Raises EpisodeLost."""
        self.number += 1
        self.send(f'{{"id":{self.number},{body}}}'.encode("ascii"))

    def receive(self, number: int, since: float | None = None) -> dict[str, Any]:
        """The checked reply to a request, waited for since then (now, if not told). Raises EpisodeLost."""
        limits = self.limits
        started = time.monotonic() if since is None else since
        try:
            data = self._frame(limits)
            if data[:8] == b'{"lost":':
                raise self.lose(*_told(data))
            reply = frames.parse(data, number, limits)
        except wire.FrameError as error:
            self.busy_seconds += time.monotonic() - started
            raise self.lose(error.reason, error.detail) from None
        except frames.BadFrame as error:
            reason = "memory" if isinstance(error, frames.HeavyFrame) else "protocol"
            raise self.lose(reason, str(error)) from None
        except EpisodeLost:
            raise
        except BaseException:
            self.lose("closed", "interrupted")
            raise
        self.busy_seconds += time.monotonic() - started
        return reply

    def _frame(self, limits: Limits) -> bytes:
        sock, spent = self.child.sock, self.sending_seconds
        self.sending_seconds = 0.0
        left = limits.call_seconds - spent
        if spent:
            wire.set_timeout(sock, max(0.001, left))
        data = wire.receive(sock, limits.frame_bytes + 1_024, left)
        if spent or len(data) >= wire.PART:
            wire.set_timeout(sock, limits.call_seconds)
        return data

    def lose(self, reason: str, detail: str = "") -> EpisodeLost:
        """End the child, and remember why."""
        if self.lost is None:
            if reason == "closed" and detail != "interrupted":
                reason, detail = self.pool.ending(self.child)
                if reason == "killed" and self.busy_seconds >= self.limits.cpu_seconds:
                    reason, detail = "time", "it used its processor time"
            elif reason == "time":
                detail = detail or f"no answer within {self.limits.call_seconds:g} seconds"
            self.lost = (SandboxLost if reason in _OURS else ProgramEnded)(reason, detail)
            self._let_go()
        return type(self.lost)(self.lost.reason, self.lost.detail)

    @property
    def ended_from_outside(self) -> bool:
        """Whether something other than the program ended the child, or perhaps did: worth another try."""
        return self.lost is not None and self.lost.reason in ("killed", "sandbox")

    def close(self) -> None:
        if self.lost is None:
            self.lost = SandboxLost("closed")
            self._let_go()

    def _let_go(self) -> None:
        self.child.kill()
        if self.told is not None:
            self.told()


def _told(data: bytes) -> tuple[str, str]:
    if data == b'{"lost":"memory"}':
        return "memory", "it reached its limit of memory"
    if data == b'{"lost":"too_large"}':
        return "memory", "its state outgrew the largest frame"
    return "protocol", "an unknown notice"


def _tell(loop: asyncio.AbstractEventLoop, hear: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):
        # The loop may be closed by now, and nobody waits.
        loop.call_soon_threadsafe(hear)


async def replied(link: Link) -> bool:
    """Wait for the child, at most its time for a call: whether a whole reply can be read at once."""
    sock = link.child.sock
    handle = sock.fileno()
    if handle < 0:
        return False
    loop = asyncio.get_running_loop()
    heard = loop.create_future()

    def hear() -> None:
        # Here and now: once the socket is closed its number may be another's.
        loop.remove_reader(handle)
        if not heard.done():
            heard.set_result(None)

    def give_up() -> None:
        hear()
        link.lose("time")

    loop.add_reader(handle, hear)
    late = loop.call_later(link.limits.call_seconds, give_up)
    link.told = partial(_tell, loop, hear)
    try:
        await heard
    finally:
        link.told = None
        late.cancel()
        loop.remove_reader(handle)
    return link.lost is None and wire.is_whole(sock)


class _MadeCall(NamedTuple):
    """A call that was made, as the body of its request, and what it changed."""

    body: str
    patch: Patch


def _call_body(tool: str, arguments: str, latency_s: float) -> str:
    latency = f',"latency_s":{latency_s!r}' if latency_s else ""
    return f'"op":"call","tool":{tool},"args":{arguments}{latency}'


class Episode:
    """One environment, alive in its own process. Thread-safe; closes itself at the end of a `with` block.

    `refusal` gives what a call comes to that is not let through to the program; None for one that is.
    """

    def __init__(
        self,
        link: Link,
        remake: Callable[[], Link],
        refusal: Callable[[str, dict[str, Any]], CallResult | None] | None = None,
    ) -> None:
        self._link = link
        self._remake = remake
        self._refusal = refusal
        self._lock = threading.RLock()
        self._calls: list[_MadeCall] = []
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether calls can still be made, as far as is known."""
        return self._link.lost is None

    def call(self, tool: str, args: dict[str, Any], latency_s: float = 0.0) -> CallResult:
        """Call one tool, before which so much more time passes on the clock of the program; nobody waits for it. What
        the tool does wrong is in the result.

        Raises ProgramEnded (the program ended its process) and SandboxLost. A process that SIGKILL ended is made
        again once, with the calls so far: only if that happens again is it the program's doing.
        """
        body = self._spelled(tool, args, latency_s)
        if isinstance(body, CallResult):
            return body
        with self._lock:
            started = time.perf_counter_ns()
            return self._result(body, self._exchange(body), started)

    async def call_from_loop(
        self,
        tool: str,
        args: dict[str, Any],
        in_thread: Callable[[Callable[[], CallResult]], Awaitable[CallResult]],
        latency_s: float = 0.0,
    ) -> CallResult:
        """`call` for an event loop, which goes on meanwhile. Only what may block is handed to `in_thread`: arguments or
        a result of more than one datagram, and an ending. One call at a time; one that is cancelled ends the episode.
        """
        body = self._spelled(tool, args, latency_s)
        if isinstance(body, CallResult):
            return body
        if wire.STREAM or len(body) >= wire.PART - 64:
            return await in_thread(lambda: self.call(tool, args, latency_s))
        link, started, since, whole = self._link, time.perf_counter_ns(), time.monotonic(), False

        def finish() -> CallResult:
            with self._lock:
                try:
                    reply = link.receive(link.number, since)
                except ProgramEnded as error:
                    reply = self._again(error, body)
                return self._result(body, reply, started)

        try:
            with contextlib.suppress(ProgramEnded):
                # `finish` comes upon it again.
                link.begin(body)
                whole = await replied(link)
            return finish() if whole else await in_thread(finish)
        except asyncio.CancelledError:
            link.lose("closed", "interrupted")
            raise

    def _spelled(self, tool: str, args: dict[str, Any], latency_s: float) -> str | CallResult:
        """The body of the request; or what the call comes to, where none is to be made."""
        try:
            name, arguments = _encode(tool), _encode(args)
        except (TypeError, ValueError, RecursionError) as error:
            return _bad(f"the arguments are not JSON: {error}")
        if len(arguments) > self._link.limits.frame_bytes:
            return _bad(f"the arguments take more than {self._link.limits.frame_bytes} bytes")
        refused = self._refusal(tool, args) if self._refusal is not None else None
        return _call_body(name, arguments, latency_s) if refused is None else refused

    def _result(self, body: str, reply: dict[str, Any], started: int) -> CallResult:
        duration_us = (time.perf_counter_ns() - started) // 1_000
        try:
            result = frames.call_result(reply, duration_us)
        except frames.BadFrame as error:
            raise self._link.lose("protocol", str(error)) from None
        self._calls.append(_MadeCall(body, result.patch))
        return result

    def state(self) -> State:
        """The encoded state. Raises EpisodeLost, or StateError when it has no encoding."""
        state = self._ask('"op":"state"').get("s")
        if type(state) is not dict:
            raise self._link.lose("protocol", "the state is no object")
        return state

    def state_hash(self) -> str:
        """SHA-256 of the canonical encoded state, in hex. Raises EpisodeLost or StateError."""
        digest = self._ask('"op":"hash"').get("h")
        if type(digest) is not str or len(digest) != 64:
            raise self._link.lose("protocol", "the hash is none")
        return digest

    def fork(self) -> Episode:
        """A second episode in the same state, reached by making the same calls again.

        Raises ReplayMismatch when the program does not come to the same state.
        """
        with self._lock:
            expected = self.state_hash()
            calls = list(self._calls)
        copy = Episode(self._remake(), self._remake, self._refusal)
        try:
            for made in calls:
                with copy._lock:
                    copy._exchange(made.body)
                    copy._calls.append(made)
            if copy.state_hash() != expected:
                raise ReplayMismatch(f"After the same {len(calls)} calls the state is another one.")
        except BaseException:
            copy.close()
            raise
        return copy

    def close(self) -> None:
        """End the episode's process. Can be called twice."""
        self._closed = True
        self._link.close()

    def _ask(self, body: str) -> dict[str, Any]:
        with self._lock:
            reply = self._exchange(body)
        if "refused" in reply:
            raise StateError(str(reply.get("message"))[:2_000])
        return reply

    def _exchange(self, body: str) -> dict[str, Any]:
        try:
            return self._link.ask(body)
        except ProgramEnded as error:
            return self._again(error, body)

    def _again(self, error: ProgramEnded, body: str) -> dict[str, Any]:
        """The reply of a fresh process, where something killed the one that was asked."""
        if error.reason != "killed":
            raise error
        self._restart()
        return self._link.ask(body)

    def _restart(self) -> None:
        """Go on in a fresh process with the calls made so far. Raises ProgramEnded where they lead elsewhere."""
        link = self._remake()
        try:
            if self._closed:
                # By another thread, which found nothing to close but the process that is gone.
                raise SandboxLost("closed")
            for made in self._calls:
                try:
                    patch = frames.call_result(link.ask(made.body)).patch
                except frames.BadFrame as error:
                    raise link.lose("protocol", str(error)) from None
                if patch != made.patch:
                    raise link.lose(
                        "killed", "it was ended by SIGKILL, and the calls before it now change other things"
                    )
        except BaseException:
            self._link = link
            link.close()
            raise
        self._link = link

    def __enter__(self) -> Episode:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # `_link` is absent when the constructor was interrupted.
        with contextlib.suppress(AttributeError):
            self._link.close()


def _bad(message: str) -> CallResult:
    return CallResult(ok=False, error=CallError(kind="bad_arguments", message=message[:2_000]))
