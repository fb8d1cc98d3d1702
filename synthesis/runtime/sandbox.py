"""The sandbox: episodes of programs, and checks on states, each in an isolated process of its own."""

from __future__ import annotations

import atexit
import collections
import contextlib
import datetime
import functools
import hashlib
import itertools
import json
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence

from synthesis.contracts import (
    DEFAULT_NOW,
    DEFAULT_SEED,
    Limits,
    Program,
    State,
    Validation,
    Verdict,
)
from synthesis.errors import (
    EpisodeLost,
    InputError,
    ProgramError,
    SandboxLost,
    StateError,
)
from synthesis.runtime import frames
from synthesis.runtime.check_request import (
    build_check_request,
    build_world_text,
    find_language_problem,
    require_readable,
    serialize_state,
)
from synthesis.runtime.encoding import decode_state, to_canonical_json
from synthesis.runtime.episode import Episode, Link
from synthesis.runtime.offered_tools import refuse_withheld_parameter
from synthesis.runtime.pool import Pool, choose_namespaces
from synthesis.runtime.report import SandboxReport

POOL_SIZE = 4
AT_ONCE = 4
"""So many checks are evaluated at the same time."""
STOPPED = "stopped"
"""How the error of a check begins that lost its process: `stopped (time): ...`."""
_encode = json.JSONEncoder(separators=(",", ":")).encode
_living: weakref.WeakSet[Sandbox] = weakref.WeakSet()


class _Compiled:
    """A program in the form for its episodes: the part of the request that never changes."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.blob: bytes | None = None
        self.source = _encode(program.source)
        self.tools = _encode({tool.name: _encode(tool.parameters) for tool in program.tools})
        self.class_name = _encode(program.class_name)


class Sandbox:
    """A sandbox for untrusted programs. Thread-safe; starts its processes on first use.

    `mode` is `auto`, `root`, `user`, `no_namespaces` or, on macOS alone, `reduced`. `max_templates` bounds how many
    programs are kept compiled. Raise SandboxUnavailable, here or on first use, if it cannot protect the host.
    """

    def __init__(self, mode: str = "auto", limits: Limits | None = None, max_templates: int = 32) -> None:
        choose_namespaces(mode)
        self.limits = limits or Limits()
        self._pool = Pool(mode, self.limits, POOL_SIZE)
        self._max_templates = max(1, max_templates)
        self._by_identity: collections.OrderedDict[int, _Compiled] = collections.OrderedDict()
        self._by_content: collections.OrderedDict[str, _Compiled] = collections.OrderedDict()
        self._lock = threading.Lock()
        self._links: weakref.WeakSet[Link] = weakref.WeakSet()
        _living.add(self)

    def report(self) -> SandboxReport:
        """Return the layers that protect the host right now, tried from inside. Raise SandboxUnavailable."""
        return self._pool.report()

    def reset(
        self,
        program: Program,
        initial_state: State | None,
        *,
        seed: int = DEFAULT_SEED,
        now: str = DEFAULT_NOW,
        validation: Validation = "schema",
        observe_aliases: bool = False,
    ) -> Episode:
        """Begin a new episode. `initial_state` is encoded.

        Raise ProgramError (it does not load or construct), StateError (the initial state is malformed), InputError
        (`now` is not an ISO moment), ProgramEnded (it ran out of time or memory, or ended), SandboxLost or
        SandboxUnavailable.
        """
        _require_moment(now)
        compiled = self._get_compiled(program)
        options = f'"seed":{int(seed)},"now":{_encode(now)},"validation":"{validation}"'
        options += f',"observe":{"true" if observe_aliases else "false"},"class_name":{compiled.class_name}'
        try:
            state = _encode(initial_state)
        except (TypeError, ValueError, RecursionError) as error:
            raise StateError(f"the initial state is not JSON: {error}") from None
        request = f'"op":"reset",{options},"size":{len(state)}', state

        def begin_link() -> Link:
            return self._begin(compiled, *request)

        closed = validation == "source" and any(tool.withheld for tool in program.tools)
        return Episode(
            begin_link(), begin_link, functools.partial(refuse_withheld_parameter, program) if closed else None
        )

    def _begin(self, compiled: _Compiled, body: str, state: str) -> Link:
        link = self._open_link()
        try:
            self._load(link, compiled, body, state)
        except EpisodeLost:
            if not link.ended_from_outside:
                raise
            link = self._open_link()
            self._load(link, compiled, body, state)
        return link

    def _load(self, link: Link, compiled: _Compiled, body: str, state: str) -> None:
        link.number = 1
        blob = compiled.blob
        if blob is not None:
            link.send(f'{{"id":1,"compiled":true,{body}}}\0{state}'.encode("ascii") + blob)
        else:
            parts = f'"source":{compiled.source},"tools":{compiled.tools}'
            link.send(f'{{"id":1,"compiled":false,{parts},{body}}}\0{state}'.encode("ascii"))
        reply = link.receive(1)
        if blob is None and "compiled" in reply:
            with contextlib.suppress(ValueError, TypeError):
                compiled.blob = bytes.fromhex(reply["compiled"]) or None
            reply = link.receive(1)
        if reply.get("ok") is True:
            return
        link.close()
        message = str(reply.get("message", "no reason given"))[:2_000]
        if reply.get("refused") == "input":
            # The program controls the child's reply: blame the state only if it is malformed here as well.
            decode_state(json.loads(state))
        raise ProgramError(message)

    def _open_link(self) -> Link:
        link = Link(self._pool.acquire(), self._pool)
        self._links.add(link)
        return link

    def _get_compiled(self, program: Program) -> _Compiled:
        with self._lock:
            compiled = self._by_identity.get(id(program))
            if compiled is not None and compiled.program is program:
                self._by_identity.move_to_end(id(program))
                return compiled
        content = {"tools": {tool.name: tool.parameters for tool in program.tools}, "class": program.class_name}
        try:
            text = to_canonical_json(content | {"source": program.source})
        except StateError as error:
            raise ProgramError(f"the program cannot be sent: {error}") from None
        key = hashlib.sha256(text.encode("ascii")).hexdigest()
        with self._lock:
            entry = self._by_content.pop(key, None) or _Compiled(program)
            self._by_content[key] = entry
            if entry.program is program:
                self._by_identity[id(program)] = entry
            while len(self._by_content) > self._max_templates:
                _, old = self._by_content.popitem(last=False)
                self._by_identity.pop(id(old.program), None)
            return entry

    def evaluate_checks(
        self, checks: Sequence[str], initial_state: State, final_state: State, *, answer: str | None = ""
    ) -> list[Verdict]:
        """Return the verdict of each check on one final state, as `verdicts` yields them.

        Raise StateError (the states are not JSON, or malformed) and InfrastructureError (the sandbox itself failed).
        """
        return next(self.evaluate_ends(initial_state, [(checks, final_state, answer)]))

    def evaluate_ends(
        self, initial_state: State, ends: Sequence[tuple[Sequence[str], State, str | None]]
    ) -> Iterator[list[Verdict]]:
        """Yield the `evaluate_checks` of several ends (checks, final state, answer); the next end is started ahead."""
        initial = serialize_state(initial_state)

        def iterate_questions() -> Iterator[tuple[str, str]]:
            for checks, final_state, answer in ends:
                world = build_world_text(initial, serialize_state(final_state), answer)
                yield from ((source, world) for source in checks)

        verdicts = self.verdicts(iterate_questions())
        for checks, _, _ in ends:
            yield list(itertools.islice(verdicts, len(checks)))

    def verdicts(self, asked: Iterable[tuple[str, str]]) -> Iterator[Verdict]:
        """Yield the verdicts on pairs (a check's source, a world from `build_world_text`), in order.

        Each runs in a process of its own, started for it and ended after it, isolated from the others. A check that is
        outside of its language, raises, runs out of time or memory, or breaks the protocol has failed; the others are
        judged. `asked` is read a few ahead. Raise as `evaluate_checks`.
        """
        waiting: collections.deque[tuple[str, str, Link | None]] = collections.deque()
        try:
            for source, world in asked:
                link = None if find_language_problem(source) else self._ask_check(source, world)
                waiting.append((source, world, link))
                if len(waiting) >= AT_ONCE:
                    yield self._wait_for_verdict(*waiting.popleft())
            while waiting:
                yield self._wait_for_verdict(*waiting.popleft())
        finally:
            for _, _, link in waiting:
                if link is not None:
                    link.close()

    def _ask_check(self, source: str, world: str) -> Link:
        request = build_check_request(source, world)
        link = self._open_link()
        with contextlib.suppress(EpisodeLost):
            # The loss of the child is noticed when its verdict is read.
            link.send(request)
        return link

    def _wait_for_verdict(self, source: str, world: str, link: Link | None) -> Verdict:
        if link is None:
            return Verdict(passed=False, error=find_language_problem(source))
        try:
            verdict = _read_verdict(link, world)
            if verdict is None and link.ended_from_outside:
                link = self._ask_check(source, world)
                verdict = _read_verdict(link, world)
        finally:
            link.close()
        if verdict is not None:
            return verdict
        lost = link.lost
        if isinstance(lost, SandboxLost):
            raise lost
        reason, detail = (lost.reason, lost.detail) if lost else ("protocol", "")
        return Verdict(passed=False, error=f"{STOPPED} ({reason}){': ' * bool(detail)}{detail}")

    def close(self) -> None:
        """End every process of this sandbox."""
        for link in list(self._links):
            link.close()
        self._pool.close()

    def _forget(self) -> None:
        """Release, in a forked copy of this process, what belongs to the original."""
        self._lock = threading.Lock()
        for link in list(self._links):
            if link.lost is None:
                link.lost = SandboxLost("closed", "it belongs to the process this one was forked from")
                link.child.release()
        self._pool.forget()


def _require_moment(now: str) -> None:
    try:
        datetime.datetime.fromisoformat(now)
    except (TypeError, ValueError):
        raise InputError(f"`now` must be an ISO 8601 moment such as {DEFAULT_NOW}, not {now!r:.60}") from None


def _read_verdict(link: Link, world: str) -> Verdict | None:
    """Return the verdict of the check's process; None if it was lost, which the link then records."""
    try:
        reply = link.receive(0)
        if "refused" in reply:
            require_readable(world)
            raise frames.BadFrame("it refused states that can be read")
        return frames.read_verdict(reply)
    except frames.BadFrame as error:
        link.lose("protocol", str(error))
    except EpisodeLost:
        pass
    return None


_default: Sandbox | None = None
_default_lock = threading.Lock()


def get_default_sandbox() -> Sandbox:
    """Return the sandbox of this process, made on first use. A forked process gets its own; it closes at exit."""
    global _default
    with _default_lock:
        if _default is None or _default._pool.closed:
            _default = Sandbox()
        return _default


def _forget_after_fork() -> None:
    global _default, _default_lock
    _default_lock = threading.Lock()
    _default = None
    for sandbox in list(_living):
        sandbox._forget()


def _close_at_exit() -> None:
    for sandbox in list(_living):
        with contextlib.suppress(OSError):
            sandbox.close()


os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(_close_at_exit)

__all__ = ["Sandbox", "get_default_sandbox"]
