"""The sandbox: episodes of programs, and checks on states, each in a process that can do nothing else."""

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
from synthesis.runtime.check_request import check_request, language_problem, require_readable, state_text, world_text
from synthesis.runtime.encoding import canonical_json, decode_state
from synthesis.runtime.episode import Episode, Link
from synthesis.runtime.offered_tools import refusal
from synthesis.runtime.pool import Pool, namespaces_for
from synthesis.runtime.report import SandboxReport

POOL_SIZE = 4
AT_ONCE = 4
"""So many checks are evaluated at the same time."""
STOPPED = "stopped"
"""How the error of a check begins that lost its process: `stopped (time): ...`."""
_encode = json.JSONEncoder(separators=(",", ":")).encode
_living: weakref.WeakSet[Sandbox] = weakref.WeakSet()


class _Compiled:
    """A program as its episodes get it: the part of the request that never changes."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.blob: bytes | None = None
        self.source = _encode(program.source)
        self.tools = _encode({tool.name: _encode(tool.parameters) for tool in program.tools})
        self.class_name = _encode(program.class_name)


class Sandbox:
    """Runs programs nobody trusts. Thread-safe; starts its processes on first use.

    `mode` is `auto`, `root`, `user`, `no_namespaces` or, on macOS alone, `reduced`. `max_templates` bounds how many
    programs are kept compiled. Raises SandboxUnavailable, here or on first use, where it cannot protect the host.
    """

    def __init__(self, mode: str = "auto", limits: Limits | None = None, max_templates: int = 32) -> None:
        namespaces_for(mode)
        self.limits = limits or Limits()
        self._pool = Pool(mode, self.limits, POOL_SIZE)
        self._max_templates = max(1, max_templates)
        self._by_identity: collections.OrderedDict[int, _Compiled] = collections.OrderedDict()
        self._by_content: collections.OrderedDict[str, _Compiled] = collections.OrderedDict()
        self._lock = threading.Lock()
        self._links: weakref.WeakSet[Link] = weakref.WeakSet()
        _living.add(self)

    def report(self) -> SandboxReport:
        """What protects the host right now, tried from inside. Raises SandboxUnavailable."""
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
        """A new episode. `initial_state` is encoded.

        Raises ProgramError (it does not load or construct), StateError (the initial state is malformed), InputError
        (`now` is no ISO moment), ProgramEnded (it ran out of time or memory, or ended), SandboxLost or
        SandboxUnavailable.
        """
        _moment(now)
        compiled = self._compiled(program)
        options = f'"seed":{int(seed)},"now":{_encode(now)},"validation":"{validation}"'
        options += f',"observe":{"true" if observe_aliases else "false"},"class_name":{compiled.class_name}'
        try:
            state = _encode(initial_state)
        except (TypeError, ValueError, RecursionError) as error:
            raise StateError(f"the initial state is not JSON: {error}") from None
        request = f'"op":"reset",{options},"size":{len(state)}', state

        def make() -> Link:
            return self._begin(compiled, *request)

        closed = validation == "source" and any(tool.withheld for tool in program.tools)
        return Episode(make(), make, functools.partial(refusal, program) if closed else None)

    def _begin(self, compiled: _Compiled, body: str, state: str) -> Link:
        link = self._link()
        try:
            self._load(link, compiled, body, state)
        except EpisodeLost:
            if not link.ended_from_outside:
                raise
            link = self._link()
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
            # The child is the program's too: only a state that is malformed here as well is not its doing.
            decode_state(json.loads(state))
        raise ProgramError(message)

    def _link(self) -> Link:
        link = Link(self._pool.acquire(), self._pool)
        self._links.add(link)
        return link

    def _compiled(self, program: Program) -> _Compiled:
        with self._lock:
            known = self._by_identity.get(id(program))
            if known is not None and known.program is program:
                self._by_identity.move_to_end(id(program))
                return known
        content = {"tools": {tool.name: tool.parameters for tool in program.tools}, "class": program.class_name}
        try:
            text = canonical_json(content | {"source": program.source})
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
        """The verdict of each check on one final state, as `verdicts` gives them.

        Raises StateError (the states are no JSON, or malformed) and InfrastructureError (the sandbox itself failed).
        """
        return next(self.evaluate_ends(initial_state, [(checks, final_state, answer)]))

    def evaluate_ends(
        self, initial_state: State, ends: Sequence[tuple[Sequence[str], State, str | None]]
    ) -> Iterator[list[Verdict]]:
        """`evaluate_checks` of several ends (checks, final state, answer), the next one asked about ahead."""
        initial = state_text(initial_state)

        def asked() -> Iterator[tuple[str, str]]:
            for checks, final_state, answer in ends:
                world = world_text(initial, state_text(final_state), answer)
                yield from ((source, world) for source in checks)

        verdicts = self.verdicts(asked())
        for checks, _, _ in ends:
            yield list(itertools.islice(verdicts, len(checks)))

    def verdicts(self, asked: Iterable[tuple[str, str]]) -> Iterator[Verdict]:
        """The verdicts on (a check's source, the world it looks at), in order; a world is made by `world_text`.

        Each runs in a process of its own, made for it and ended after it, that knows nothing of the others. A check
        that is outside of its language, raises, runs out of time or memory, or breaks the protocol has failed; the
        others are judged. `asked` is read a few ahead. Raises as `evaluate_checks`.
        """
        waiting: collections.deque[tuple[str, str, Link | None]] = collections.deque()
        try:
            for source, world in asked:
                link = None if language_problem(source) else self._ask_check(source, world)
                waiting.append((source, world, link))
                if len(waiting) >= AT_ONCE:
                    yield self._verdict(*waiting.popleft())
            while waiting:
                yield self._verdict(*waiting.popleft())
        finally:
            for _, _, link in waiting:
                if link is not None:
                    link.close()

    def _ask_check(self, source: str, world: str) -> Link:
        request = check_request(source, world)
        link = self._link()
        with contextlib.suppress(EpisodeLost):
            # A child that is gone shows when its verdict is read.
            link.send(request)
        return link

    def _verdict(self, source: str, world: str, link: Link | None) -> Verdict:
        if link is None:
            return Verdict(passed=False, error=language_problem(source))
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
        """In a forked copy of this process."""
        self._lock = threading.Lock()
        for link in list(self._links):
            if link.lost is None:
                link.lost = SandboxLost("closed", "it belongs to the process this one was forked from")
                link.child.release()
        self._pool.forget()


def _moment(now: str) -> None:
    try:
        datetime.datetime.fromisoformat(now)
    except (TypeError, ValueError):
        raise InputError(f"`now` must be an ISO 8601 moment such as {DEFAULT_NOW}, not {now!r:.60}") from None


def _read_verdict(link: Link, world: str) -> Verdict | None:
    """What the check's process says; None when it was lost, which then stands on the link."""
    try:
        reply = link.receive(0)
        if "refused" in reply:
            require_readable(world)
            raise frames.BadFrame("it refused states that can be read")
        return frames.verdict(reply)
    except frames.BadFrame as error:
        link.lose("protocol", str(error))
    except EpisodeLost:
        pass
    return None


_default: Sandbox | None = None
_default_lock = threading.Lock()


def default_sandbox() -> Sandbox:
    """The sandbox of this process, made on first use. A forked process gets its own; it closes at exit."""
    global _default
    with _default_lock:
        if _default is None or _default._pool.closed:
            _default = Sandbox()
        return _default


def _after_fork() -> None:
    global _default, _default_lock
    _default_lock = threading.Lock()
    _default = None
    for sandbox in list(_living):
        sandbox._forget()


def _at_exit() -> None:
    for sandbox in list(_living):
        with contextlib.suppress(OSError):
            sandbox.close()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)

__all__ = ["Sandbox", "default_sandbox"]
