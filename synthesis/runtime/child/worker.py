"""The work of one sandboxed child: build an environment and call its tools, or evaluate one check.

The boundary to hostile code: it catches everything, and trusts nothing it gets back except by encoding it. The host
validates every frame again.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import json
import marshal
import os
import sys
import types
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

from . import preload, virtual, wire
from .bare_stack import Outcomes, Work, take_outcome
from .check_run import MESSAGE_CHARS, describe_error, evaluate_check
from .codec import EncodingError, decode_value, encode_value, get_attributes, hash_state
from .construct import construct_environment, get_static_attribute
from .jail import probe_jail
from .patches import Tracker
from .schema import validate_arguments

_dumps = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
_scan: Any = vars(json.JSONDecoder())["scan_once"]
_LOST = {name: b'{"lost":"%s"}' % name.encode() for name in ("memory", "too_large")}


def _parse_json(text: str) -> Any:
    """Parse JSON that the host wrote. `json.loads` would detect the encoding and skip blanks, which costs pages."""
    return _scan(text, 0)[0]


class RefusedRequest(Exception):
    """The program, or the request, cannot be served; `kind` decides which error the host raises."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def build_program_builtins() -> dict[str, Any]:
    """Return built-ins whose import refuses modules that are not on the allow-list, with a clear message.

    This is not a protection (the modules loaded are reachable anyway) but a clear and repeatable answer.
    """
    space = dict(builtins.__dict__)
    real = builtins.__import__
    allowed = frozenset(preload.ALLOWED_MODULES) | preload.INTERNAL

    def import_allowed(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        head = name.partition(".")[0]
        # C code imports through here on a program's behalf: `strptime` wants `_strptime`.
        if level == 0 and head not in allowed and head[:1] != "_":
            raise ImportError(f"the module {name!r} is not available to environment programs", name=name)
        return real(name, globals, locals, fromlist, level)

    space["__import__"] = import_allowed
    space["id"], space["hash"] = virtual.get_stable_id, virtual.get_stable_hash
    return space


BUILTINS = build_program_builtins()
"""Made once, before the fork: a copy in each child would write to a hundred shared pages."""


Steps = Generator[Work, None, dict[str, Any] | None]
"""Asks for work, and gives the reply to a request in the end."""


class Worker:
    """The state of one child: the environment it holds and the options of its calls.

    Its methods are generators. They do not themselves run what may execute code of a program (a call, an encoding, a
    destructor) but yield it: then none of their frames lies below the program's (`bare_stack`).
    """

    def __init__(self, sock: Any, options: dict[str, Any], outcomes: Outcomes) -> None:
        self.sock = sock
        self.outcomes = outcomes
        self.cap = int(options["frame_bytes"])
        self.depth = int(options["depth"])
        self.environment: Any = None
        self.tools: dict[str, Any] = {}
        self.methods: dict[str, Any] = {}
        self.tracker: Tracker | None = None
        self.check_schema = True
        self.observe = False
        self.calls = self.collected = 0

    def serve(self) -> Iterator[Work]:
        """Answer requests until the host closes the socket."""
        while True:
            try:
                # Not kept in a variable: a request is large, and memory once written to stays with the process.
                yield from self.answer(wire.receive_frame(self.sock, 1 << 30))
                yield from self._collect_garbage()
            except wire.FrameError:
                return
            except MemoryError:
                self.environment = self.tracker = None
                self._lose("memory")

    def _collect_garbage(self) -> Iterator[Work]:
        """Run the collector after each call, by the number of calls.

        Python's own schedule depends on what else the process did, and a program that looks at weak references would
        see it.
        """
        if self.calls == self.collected:
            return
        self.collected = self.calls
        yield partial(gc.collect, 2 if self.calls % 100 == 0 else 1 if self.calls % 10 == 0 else 0)
        take_outcome(self.outcomes)

    def answer(self, data: bytes) -> Iterator[Work]:
        """Answer one request."""
        end = data.find(b"\0")
        request = _parse_json(str(data if end < 0 else data[:end], "ascii"))
        tail = memoryview(data)[end + 1 :] if end >= 0 else memoryview(b"")
        del data
        try:
            reply = yield from _OPERATIONS[request["op"]](self, request, tail)
        except RefusedRequest as refusal:
            reply = {"refused": refusal.kind, "message": str(refusal)[:MESSAGE_CHARS]}
        except EncodingError as error:
            reply = {"refused": "state", "message": str(error)[:MESSAGE_CHARS]}
        if reply is not None:
            self._reply(request["id"], reply)

    def _reply(self, number: int, reply: dict[str, Any]) -> None:
        reply["id"] = number
        data = _dumps(reply).encode("ascii")
        if len(data) > self.cap:
            if "r" not in reply:
                self._lose("too_large")
            reply.pop("r")
            reply |= {"ok": False, "e": ["too_large", "", f"the result takes more than {self.cap} bytes"]}
            data = _dumps(reply).encode("ascii")
            if len(data) > self.cap:
                self._lose("too_large")
        wire.send_frame(self.sock, data)

    def _lose(self, reason: str) -> None:
        with contextlib.suppress(wire.FrameError):
            wire.send_frame(self.sock, _LOST[reason])
        os._exit(71)

    # -- an episode

    def reset(self, request: dict[str, Any], tail: memoryview) -> Steps:
        """Build the environment. The compiled program is sent back once, for the host to store."""
        text = str(tail[: request["size"]], "ascii")
        if request["compiled"]:
            code, self.tools = marshal.loads(tail[request["size"] :])
        else:
            source, tools = request["source"], request["tools"]
            code = _compile_program(source)
            self.tools = tools
            compiled = marshal.dumps((code, tools)).hex() if len(source) < self.cap // 16 else ""
            self._reply(request["id"], {"compiled": compiled})
        virtual.seed_episode(request["seed"], request["now"])
        self.check_schema = request["validation"] == "schema"
        self.observe = request["observe"]
        tail.release()
        gc.collect(0)  # from here on collection follows the calls
        try:
            copies = [_read_state(text)]
        except EncodingError as error:
            raise RefusedRequest("input", f"the initial state: {error}") from None

        def get_fresh_state() -> Any:
            return copies.pop() if copies else _read_state(text)

        yield partial(_build_environment, code, request["class_name"], get_fresh_state, tuple(self.tools), self.depth)
        self.environment, self.methods, self.tracker = take_outcome(self.outcomes)
        return {"ok": True}

    def state(self, request: dict[str, Any], tail: memoryview) -> Steps:
        """Return the encoded state."""
        yield partial(_encode_state, self.environment, self.depth)
        return {"ok": True, "s": take_outcome(self.outcomes)}

    def hash(self, request: dict[str, Any], tail: memoryview) -> Steps:
        """Return the hash of the encoded state."""
        yield partial(_encode_state, self.environment, self.depth)
        return {"ok": True, "h": hash_state(take_outcome(self.outcomes))}

    def call(self, request: dict[str, Any], tail: memoryview) -> Steps:
        """Call one tool; whatever results from it is an observation, and so is the change it made before raising."""
        name, arguments = request["tool"], request["args"]
        if name not in self.tools:
            return _build_error_reply("unknown_tool", "", f"there is no tool named {name!r:.200}")
        if type(arguments) is not dict:
            return _build_error_reply("bad_arguments", "", "the arguments must be an object")
        if self.check_schema:
            schema = self.tools[name]
            if type(schema) is str:
                # Kept as text until it is needed: most tools of a program are never called in an episode.
                schema = self.tools[name] = _parse_json(schema)
            problem = validate_arguments(arguments, schema)
            if problem is not None:
                return _build_error_reply("bad_arguments", "", problem[:MESSAGE_CHARS])
        if name not in self.methods:
            return _build_error_reply("unknown_tool", "", f"the program has no method {name!r:.200}")
        virtual.advance_clock(request.get("latency_s", 0.0))
        self.calls += 1
        method = self.methods[name]
        if type(method) is types.FunctionType:
            yield partial(method, self.environment, **arguments)
        else:
            yield partial(method.__get__, self.environment, type(self.environment))
            if self.outcomes[-1][0]:
                yield partial(self.outcomes.pop()[1], **arguments)
        # The outcome stays in its list: no frame of this module holds an object whose destructor could inspect it.
        yield partial(_build_observation, self.outcomes, self.environment, self.tracker, self.depth, self.observe)
        observed: dict[str, Any] = take_outcome(self.outcomes)
        return observed

    # -- a check

    def check(self, request: dict[str, Any], tail: memoryview) -> Steps:
        """Evaluate one check on one final state: the only work of this process."""
        text = str(tail[: request["size"]], "ascii")
        world = _parse_json(text)
        if '"$' in text:
            world["initial"], world["final"] = decode_value(world["initial"]), decode_value(world["final"])
        virtual.seed_episode(0, request["now"])
        code = marshal.loads(tail[request["size"] :])
        yield partial(evaluate_check, code, world["initial"], world["final"], world["answer"])
        return {"v": take_outcome(self.outcomes)}

    def probe(self, request: dict[str, Any], tail: memoryview) -> Steps:
        """Try the forbidden actions and return which were refused: the layers, seen from inside."""
        yield probe_jail
        return {"ok": True, "probe": take_outcome(self.outcomes)}


def _compile_program(source: str) -> types.CodeType:
    try:
        return compile(source, "<program>", "exec", dont_inherit=True)
    except MemoryError:
        raise
    except (SyntaxError, ValueError, RecursionError) as error:
        name, message = describe_error(error)
        raise RefusedRequest("program", f"the program does not compile: {name}: {message}") from None


def _build_environment(
    code: types.CodeType, class_name: str, fresh: Callable[[], Any], tools: tuple[str, ...], depth: int
) -> tuple[Any, dict[str, Any], Tracker]:
    """Return an environment with its initial state, its methods by the names of tools, and a tracker of its changes."""
    try:
        module = types.ModuleType("program")
        module.__dict__["__builtins__"] = BUILTINS
        sys.modules["program"] = module
        exec(code, module.__dict__)
        cls = module.__dict__.get(class_name)
        if not isinstance(cls, type):
            raise RefusedRequest("program", f"the program defines no class {class_name}")
        environment = construct_environment(cls, fresh)
        attributes = {name: get_static_attribute(cls, name) for name in tools}
        methods = {name: method for name, method in attributes.items() if method is not None}
        return environment, methods, Tracker(depth, _get_state(environment))
    except (MemoryError, RefusedRequest):
        raise
    except EncodingError as error:
        raise RefusedRequest("program", f"the state has no lossless encoding: {error}") from None
    except BaseException as error:
        name, message = describe_error(error)
        raise RefusedRequest("program", f"{name}: {message}") from None


def _get_state(environment: Any) -> dict[str, Any]:
    if environment is None:
        raise RefusedRequest("input", "there is no episode")
    try:
        return environment.__dict__ if type(environment.__dict__) is dict else get_attributes(environment)
    except AttributeError:
        return get_attributes(environment)


def _encode_state(environment: Any, depth: int) -> Any:
    try:
        return encode_value(_get_state(environment), depth, lenient=True)
    except (MemoryError, EncodingError, RefusedRequest):
        raise
    except BaseException as error:
        raise EncodingError(": ".join(describe_error(error))) from None


def _build_observation(
    outcomes: Outcomes, environment: Any, tracker: Tracker | None, depth: int, observe: bool
) -> dict[str, Any]:
    """Return the result of a call, with the change that it made."""
    assert tracker is not None
    passed, value = outcomes.pop()
    if not passed and isinstance(value, MemoryError):
        raise value
    reply = _build_result(value, environment if observe else None, depth) if passed else _build_failure(value)
    try:
        reply["p"] = tracker.changes(_get_state(environment))
    except MemoryError:
        raise
    except BaseException as error:
        reply = {"p": []}
        reply |= _build_error_reply("unencodable", "", f"the state after the call: {describe_error(error)[1]}")
    return reply


def _build_result(value: Any, shared: Any, depth: int) -> dict[str, Any]:
    try:
        reply = {"ok": True, "r": encode_value(value, depth)}
        if shared is not None:
            reply["a"] = shares_container(value, _get_state(shared))
        return reply
    except MemoryError:
        raise
    except BaseException as error:
        return _build_error_reply("unencodable", type(value).__name__[:200], describe_error(error)[1])


def _build_failure(error: BaseException) -> dict[str, Any]:
    name, message = describe_error(error)
    trace = error.__traceback__
    # Raised by the call itself, not inside the tool: the arguments do not fit the signature.
    here = trace is not None and trace.tb_next is None
    kind = "bad_arguments" if here and isinstance(error, TypeError) else "raised"
    return _build_error_reply(kind, name, message)


def _read_state(text: str) -> Any:
    # If the text has no tags, parsing it again is the fastest way to a fresh copy.
    if '"$' in text:
        return decode_value(_parse_json(text))
    try:
        return _parse_json(text)
    except RecursionError:
        raise EncodingError("nested too deep") from None


def _build_error_reply(kind: str, name: str, message: str) -> dict[str, Any]:
    return {"ok": False, "e": [kind, name, message]}


def shares_container(result: Any, state: Any) -> bool:
    """Return whether a result shares a mutable container with the live state."""
    state_ids: set[int] = set()
    _collect_container_ids(state, state_ids, 50)
    state_ids.discard(id(state))
    result_ids: set[int] = set()
    _collect_container_ids(result, result_ids, 50)
    return not state_ids.isdisjoint(result_ids)


def _collect_container_ids(value: Any, into: set[int], depth: int) -> None:
    if depth <= 0 or id(value) in into:
        return
    if isinstance(value, dict):
        into.add(id(value))
        for item in value.values():
            _collect_container_ids(item, into, depth - 1)
    elif isinstance(value, (list, set, tuple, frozenset)):
        if isinstance(value, (list, set)):
            into.add(id(value))
        for item in value:
            _collect_container_ids(item, into, depth - 1)
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        into.add(id(value))
        _collect_container_ids(value.__dict__, into, depth - 1)


_OPERATIONS: dict[str, Callable[[Worker, dict[str, Any], memoryview], Steps]] = {
    "call": Worker.call,
    "reset": Worker.reset,
    "state": Worker.state,
    "hash": Worker.hash,
    "check": Worker.check,
    "probe": Worker.probe,
}
