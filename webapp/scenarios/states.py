"""States by content: stored once, compressed, key order kept."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Any

from synthesis.contracts import State
from synthesis.errors import InputError
from synthesis.runtime.encoding import state_hash
from webapp.scenarios.models import StateBody

LEVEL = 3


def store_state(state: State) -> StateBody:
    """The row that holds an encoded state, made if it is not there.

    Written outside of any longer transaction where it can be: rows are addressed by content, so that
    writing one twice, or one that nothing refers to in the end, does no harm.
    """
    text = json.dumps(state, separators=(",", ":")).encode()
    digest = hashlib.sha256(text).hexdigest()
    body = StateBody.objects.defer("body").filter(pk=digest).first()
    if body is not None:
        return body
    body = StateBody(hash=digest, state_hash=state_hash(state), size=len(text), body=zlib.compress(text, LEVEL))
    StateBody.objects.bulk_create([body], ignore_conflicts=True)
    return body


def load_state(digest: str) -> State:
    """The encoded state with this content hash. Raises `StateBody.DoesNotExist`, or `InputError` if damaged."""
    body = StateBody.objects.values_list("body", flat=True).get(pk=digest)
    return unpack(body, digest)


def unpack(body: Any, digest: str) -> State:
    try:
        text = zlib.decompress(bytes(body))
    except zlib.error as error:
        raise InputError(f"The stored state {digest[:12]} is damaged: {error}") from error
    if hashlib.sha256(text).hexdigest() != digest:
        raise InputError(f"The stored state {digest[:12]} is damaged: its content has another hash.")
    state: State = json.loads(text)
    return state
