"""Episodes on the host: calls go out, checked replies come back, and a lost child stays lost."""

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
    """Requests to one child and its replies. Any breach of the protocol, and any time-out, ends the child."""

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
        """Called when the child is released: a caller that waits for its socket would receive nothing more."""

    def send(self, payload: bytes) -> None:
        """Send one request. Raise EpisodeLost."""
        if self.lost is not None:
            raise type(self.lost)(self.lost.reason, self.lost.detail)
        try:
            if len(payload) < wire.PART:
                wire.send_frame(self.child.sock, payload)
                return
            started = time.monotonic()
            wire.send_frame(self.child.sock, payload, self.limits.call_seconds)
            self.sending_seconds = time.monotonic() - started
        except wire.FrameError as error:
            raise self.lose(error.reason, error.detail) from None
        except BaseException:
            # A signal handler of the host raised in mid-frame: the protocol is out of step.
            self.lose("closed", "interrupted")
            raise

    def ask(self, body: str) -> dict[str, Any]:
        """Send a request of this body, and return the checked reply. Raise EpisodeLost."""
        self.begin(body)
        return self.receive(self.number)

    def begin(self, body: str) -> None:
        """Send a request of this body; `receive` reads the reply. Raise EpisodeLost."""
        self.number += 1
        self.send(f'{{"id":{self.number},{body}}}'.encode("ascii"))

    def receive(self, number: int, since: float | None = None) -> dict[str, Any]:
        """Return the checked reply to a request. Raise EpisodeLost.

        `since` is when the wait began, now by default.
        """
        limits = self.limits
        started = time.monotonic() if since is None else since
        try:
            data = self._frame(limits)
            if data[:8] == b'{"lost":':
                raise self.lose(*_parse_loss(data))
            reply = frames.parse_frame(data, number, limits)
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
        data = wire.receive_frame(sock, limits.frame_bytes + 1_024, left)
        if spent or len(data) >= wire.PART:
            wire.set_timeout(sock, limits.call_seconds)
        return data

    def lose(self, reason: str, detail: str = "") -> EpisodeLost:
        """End the child, and record the reason."""
        if self.lost is None:
            if reason == "closed" and detail != "interrupted":
                reason, detail = self.pool.ending(self.child)
                if reason == "killed" and self.busy_seconds >= self.limits.cpu_seconds:
                    reason, detail = "time", "it used its processor time"
            elif reason == "time":
                detail = detail or f"no answer within {self.limits.call_seconds:g} seconds"
            self.lost = (SandboxLost if reason in _OURS else ProgramEnded)(reason, detail)
            self._release_child()
        return type(self.lost)(self.lost.reason, self.lost.detail)

    @property
    def ended_from_outside(self) -> bool:
        """True if something other than the program ended the child, or may have: then a retry makes sense."""
        return self.lost is not None and self.lost.reason in ("killed", "sandbox")

    def close(self) -> None:
        if self.lost is None:
            self.lost = SandboxLost("closed")
            self._release_child()

    def _release_child(self) -> None:
        self.child.kill()
        if self.told is not None:
            self.told()


def _parse_loss(data: bytes) -> tuple[str, str]:
    if data == b'{"lost":"memory"}':
        return "memory", "it reached its limit of memory"
    if data == b'{"lost":"too_large"}':
        return "memory", "its state outgrew the largest frame"
    return "protocol", "an unknown notice"


def _call_in_loop(loop: asyncio.AbstractEventLoop, hear: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):
        # The loop may be closed by now, with no task waiting.
        loop.call_soon_threadsafe(hear)


async def wait_for_reply(link: Link) -> bool:
    """Wait for the child, at most its time for a call; return whether a whole reply can be read at once."""
    sock = link.child.sock
    handle = sock.fileno()
    if handle < 0:
        return False
    loop = asyncio.get_running_loop()
    readable = loop.create_future()

    def stop_waiting() -> None:
        # At once: after the socket is closed its number may be reused.
        loop.remove_reader(handle)
        if not readable.done():
            readable.set_result(None)

    def report_timeout() -> None:
        stop_waiting()
        link.lose("time")

    loop.add_reader(handle, stop_waiting)
    late = loop.call_later(link.limits.call_seconds, report_timeout)
    link.told = partial(_call_in_loop, loop, stop_waiting)
    try:
        await readable
    finally:
        link.told = None
        late.cancel()
        loop.remove_reader(handle)
    return link.lost is None and wire.has_whole_frame(sock)


class _MadeCall(NamedTuple):
    """A completed call: the body of its request, and the patch that it caused."""

    body: str
    patch: Patch


def _build_call_body(tool: str, arguments: str, latency_s: float) -> str:
    latency = f',"latency_s":{latency_s!r}' if latency_s else ""
    return f'"op":"call","tool":{tool},"args":{arguments}{latency}'


class Episode:
    """One environment, alive in its own process. Thread-safe; closes itself at the end of a `with` block.

    `refusal` returns the result of a call that must not reach the program, and None for any other call.
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
        """True if calls can still be made, as far as is known."""
        return self._link.lost is None

    def call(self, tool: str, args: dict[str, Any], latency_s: float = 0.0) -> CallResult:
        """Call one tool. Errors of the tool are in the result.

        `latency_s` is added to the clock of the program before the call, without waiting. Raise ProgramEnded (the
        program ended its process) and SandboxLost. A process that SIGKILL ended is restarted once, with the calls so
        far: the program is held responsible only if that happens again.
        """
        body = self._build_request(tool, args, latency_s)
        if isinstance(body, CallResult):
            return body
        with self._lock:
            started = time.perf_counter_ns()
            return self._record_result(body, self._exchange(body), started)

    async def call_from_loop(
        self,
        tool: str,
        args: dict[str, Any],
        in_thread: Callable[[Callable[[], CallResult]], Awaitable[CallResult]],
        latency_s: float = 0.0,
    ) -> CallResult:
        """Make a `call` without blocking the event loop. One call at a time; a cancelled call ends the episode.

        Only what may block is passed to `in_thread`: arguments or a result of more than one datagram, and an ending.
        """
        body = self._build_request(tool, args, latency_s)
        if isinstance(body, CallResult):
            return body
        if wire.STREAM or len(body) >= wire.PART - 64:
            return await in_thread(lambda: self.call(tool, args, latency_s))
        link, started, since, whole = self._link, time.perf_counter_ns(), time.monotonic(), False

        def receive_result() -> CallResult:
            with self._lock:
                try:
                    reply = link.receive(link.number, since)
                except ProgramEnded as error:
                    reply = self._ask_again(error, body)
                return self._record_result(body, reply, started)

        try:
            with contextlib.suppress(ProgramEnded):
                # `finish` meets the same error.
                link.begin(body)
                whole = await wait_for_reply(link)
            return receive_result() if whole else await in_thread(receive_result)
        except asyncio.CancelledError:
            link.lose("closed", "interrupted")
            raise

    def _build_request(self, tool: str, args: dict[str, Any], latency_s: float) -> str | CallResult:
        """Return the body of the request, or the result of a call that must not be made."""
        try:
            name, arguments = _encode(tool), _encode(args)
        except (TypeError, ValueError, RecursionError) as error:
            return _refuse_arguments(f"the arguments are not JSON: {error}")
        if len(arguments) > self._link.limits.frame_bytes:
            return _refuse_arguments(f"the arguments take more than {self._link.limits.frame_bytes} bytes")
        refused = self._refusal(tool, args) if self._refusal is not None else None
        return _build_call_body(name, arguments, latency_s) if refused is None else refused

    def _record_result(self, body: str, reply: dict[str, Any], started: int) -> CallResult:
        duration_us = (time.perf_counter_ns() - started) // 1_000
        try:
            result = frames.read_call_result(reply, duration_us)
        except frames.BadFrame as error:
            raise self._link.lose("protocol", str(error)) from None
        self._calls.append(_MadeCall(body, result.patch))
        return result

    def state(self) -> State:
        """Return the encoded state. Raise EpisodeLost, or StateError if it has no encoding."""
        state = self._ask('"op":"state"').get("s")
        if type(state) is not dict:
            raise self._link.lose("protocol", "the state is no object")
        return state

    def state_hash(self) -> str:
        """Return the SHA-256 of the canonical encoded state, in hex. Raise EpisodeLost or StateError."""
        digest = self._ask('"op":"hash"').get("h")
        if type(digest) is not str or len(digest) != 64:
            raise self._link.lose("protocol", "the hash is none")
        return digest

    def fork(self) -> Episode:
        """Return a second episode in the same state, reached by repeating the same calls.

        Raise ReplayMismatch if the program does not reach the same state.
        """
        with self._lock:
            expected = self.state_hash()
            calls = list(self._calls)
        copy = Episode(self._remake(), self._remake, self._refusal)
        try:
            for call in calls:
                with copy._lock:
                    copy._exchange(call.body)
                    copy._calls.append(call)
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
            return self._ask_again(error, body)

    def _ask_again(self, error: ProgramEnded, body: str) -> dict[str, Any]:
        """Return the reply of a fresh process if the process that was asked was killed."""
        if error.reason != "killed":
            raise error
        self._restart()
        return self._link.ask(body)

    def _restart(self) -> None:
        """Continue in a fresh process with the calls made so far. Raise ProgramEnded if they cause other changes."""
        link = self._remake()
        try:
            if self._closed:
                # Closed by another thread, when there was no live process to close.
                raise SandboxLost("closed")
            for call in self._calls:
                try:
                    patch = frames.read_call_result(link.ask(call.body)).patch
                except frames.BadFrame as error:
                    raise link.lose("protocol", str(error)) from None
                if patch != call.patch:
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


def _refuse_arguments(message: str) -> CallResult:
    return CallResult(ok=False, error=CallError(kind="bad_arguments", message=message[:2_000]))
