"""States as plain JSON and back, their hash, and patches between them, for code outside the sandbox.

The work is done in `child.codec` and `child.patches`, which the sandbox shares; here errors become `StateError`.
"""

from __future__ import annotations

from typing import Any

from synthesis.contracts import Patch, State
from synthesis.errors import StateError
from synthesis.runtime.child import codec, patches


def encode_state(value: Any) -> Any:
    """Return the lossless encoding of any value a state may hold. Raise StateError (no encoding, cyclic, too deep)."""
    try:
        return codec.encode_value(value)
    except codec.EncodingError as error:
        raise StateError(str(error)) from None


def decode_state(encoded: Any) -> Any:
    """Return the value that was encoded; objects of a program's own classes come back as readable records.

    Raise StateError if the encoded value is malformed.
    """
    try:
        return codec.decode_value(encoded)
    except codec.EncodingError as error:
        raise StateError(str(error)) from None


def format_decoded(encoded: Any) -> str:
    """Return the encoded value as Python writes it. Raise StateError if it is malformed, or too large a number to
    write."""
    try:
        return str(decode_state(encoded))
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError, RecursionError) as error:
        raise StateError(f"it cannot be written as text: {error}"[:500]) from None


def to_canonical_json(encoded: Any) -> str:
    """Return the canonical text of an encoded value: sorted keys, no spaces, ASCII.

    Raise StateError if it is not JSON.
    """
    try:
        return codec.to_canonical_json(encoded)
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError(f"the value is not an encoded state: {error}") from None


def hash_state(encoded: Any) -> str:
    """Return the SHA-256, in hex, of the canonical JSON. Raise StateError if the value is not JSON."""
    try:
        return codec.hash_state(encoded)
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError(f"the value is not an encoded state: {error}") from None


def make_patch(old: Any, new: Any) -> Patch:
    """Return the RFC 6902 operations that turn one encoded state into another; empty if they are equal."""
    return patches.make_patch(old, new)


def is_same_encoded(old: Any, new: Any) -> bool:
    """Return whether two encoded values are equal, types included, regardless of the order of their keys."""
    return old is new or patches.is_surely_equal(old, new) or patches.is_same_value(old, new)


def apply_patch(state: State, patch: Patch) -> State:
    """Return the patched state. The parts that the patch touches are copied and the rest shared: the input is not
    changed.

    Raise StateError if the patch is malformed or does not fit.
    """
    try:
        patched: State = patches.apply_patch(state, patch)
    except codec.EncodingError as error:
        raise StateError(str(error)) from None
    return patched


def share_unchanged(old: Any, new: Any) -> Any:
    """Return `new`, order of keys included, built of the parts of `old` that are exactly equal, which saves memory."""
    if old is new or type(old) is not type(new):
        return new
    if patches.is_surely_equal(old, new):
        return old
    if type(new) is dict:
        return {key: share_unchanged(old[key], item) if key in old else item for key, item in new.items()}
    if type(new) is list:
        return [share_unchanged(*pair) for pair in zip(old, new, strict=False)] + new[len(old) :]
    return new
