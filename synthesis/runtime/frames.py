"""Validation of frames from a hostile process: the host trusts no part of them until it is checked here."""

from __future__ import annotations

import json
import math
from typing import Any, get_args

from synthesis.contracts import INJECTED, CallError, CallResult, Limits, Patch, Verdict
from synthesis.json_weight import UNWEIGHED, estimate_weight, is_shallow
from synthesis.runtime.child.codec import is_clean_text

_KINDS = frozenset(get_args(CallError.model_fields["kind"].annotation)) - {
    "malformed",
    "not_offered",
    "ended",
    *INJECTED,
}
"""Errors that a child may report; the others are the host's to say."""
_TEXT_CAP = 4_000


class BadFrame(Exception):
    """A frame has the wrong form."""


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number out of range")
    return number


_decode = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_finite).decode


class HeavyFrame(BadFrame):
    """A frame would take more memory than the host allows it."""


def parse_frame(data: bytes, number: int | None, limits: Limits) -> dict[str, Any]:
    """Parse the reply to request `number`: JSON of bounded size and depth, with only text that a database accepts.

    Raise BadFrame. Encoding may nest each level of a value four deep.
    """
    most = 4 * limits.depth + 16
    # Half of the memory of its process: an honest one holds a value twice before it is sent.
    heaviest = limits.memory_mib << 19
    if len(data) > UNWEIGHED and estimate_weight(data, heaviest) > heaviest:
        raise HeavyFrame(f"its reply would take more than {heaviest >> 20} MiB to read")
    try:
        reply = _decode(data.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"not JSON: {type(error).__name__}") from None
    if type(reply) is not dict or (number is not None and reply.pop("id", None) != number):
        raise BadFrame("not the reply that was asked for")
    if data.count(b"[") + data.count(b"{") > most and not is_shallow(reply, most):
        raise BadFrame("nested too deep")
    if (b"\\u0000" in data or b"\\ud" in data.lower()) and not _has_clean_text(reply):
        raise BadFrame("text that is not valid")
    return reply


def _has_clean_text(value: Any) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if type(item) is str:
            if not is_clean_text(item):
                return False
        elif type(item) is dict:
            waiting.extend(item)
            waiting.extend(item.values())
        elif type(item) is list:
            waiting.extend(item)
    return True


def read_call_result(reply: dict[str, Any], duration_us: int = 0) -> CallResult:
    """Build the result of a call from its reply; the duration is measured by the host. Raise BadFrame."""
    ok = reply.get("ok")
    if type(ok) is not bool:
        raise BadFrame("a call's reply lacks its parts")
    alias = reply.get("a")
    if alias is not None and type(alias) is not bool:
        raise BadFrame("a call's reply lacks its parts")
    return CallResult.model_construct(
        ok=ok,
        result=reply.get("r") if ok else None,
        error=None if ok else _read_error(reply.get("e")),
        patch=_read_patch(reply.get("p", [])),
        duration_us=duration_us,
        aliases_state=alias,
    )


def _read_error(parts: Any) -> CallError:
    if type(parts) is not list or len(parts) != 3 or not all(type(part) is str for part in parts):
        raise BadFrame("an error lacks its parts")
    kind, name, message = parts
    if kind not in _KINDS or len(name) > _TEXT_CAP or len(message) > _TEXT_CAP:
        raise BadFrame("an error lacks its parts")
    return CallError(kind=kind, type=_to_clean_text(name), message=_to_clean_text(message))


def _to_clean_text(text: str) -> str:
    return text if is_clean_text(text) else text.encode("utf-8", "replace").decode().replace("\0", "�")


def _read_patch(operations: Any) -> Patch:
    if type(operations) is not list:
        raise BadFrame("a patch is no list")
    for operation in operations:
        if type(operation) is not dict:
            raise BadFrame("an operation is no object")
        kind, path = operation.get("op"), operation.get("path")
        expected = {"op", "path"} if kind == "remove" else {"op", "path", "value"}
        if kind not in ("add", "remove", "replace") or operation.keys() != expected:
            raise BadFrame("an operation of a patch has the wrong form")
        if type(path) is not str or path[:1] != "/":
            raise BadFrame("an operation of a patch has no path")
    return operations


def read_verdict(reply: dict[str, Any]) -> Verdict:
    """Return a check's verdict. Raise BadFrame."""
    parts = reply.get("v")
    if type(parts) is not list or len(parts) != 3:
        raise BadFrame("a verdict lacks its parts")
    passed, other, error = parts
    if any(type(flag) is not bool for flag in (passed, other)) or type(error) is not str:
        raise BadFrame("a verdict lacks its parts")
    if len(error) > _TEXT_CAP:
        raise BadFrame("a verdict lacks its parts")
    passed = passed and not other and not error
    return Verdict(passed=passed, non_boolean=other, error=_to_clean_text(error))
