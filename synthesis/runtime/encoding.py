"""States as plain JSON and back, their hash, and patches between them, for everyone outside the sandbox.

The work is done in `child.codec` and `child.patching`, which the sandbox shares; here errors become `StateError`.
"""

from __future__ import annotations

from typing import Any

from synthesis.contracts import Patch, State
from synthesis.errors import StateError
from synthesis.runtime.child import codec, patches


def encode_state(value: Any) -> Any:
    """The lossless encoding of any value a state may hold. Raises StateError (no encoding, cyclic, too deep)."""
    try:
        return codec.encode(value)
    except codec.EncodingError as error:
        raise StateError(str(error)) from None


def decode_state(encoded: Any) -> Any:
    """The value that was encoded; objects of a program's own classes come back as readable records.

    Raises StateError when the encoded value is malformed.
    """
    try:
        return codec.decode(encoded)
    except codec.EncodingError as error:
        raise StateError(str(error)) from None


def plain_text(encoded: Any) -> str:
    """The value that was encoded as Python writes it. Raises StateError: malformed, or too large a number to write."""
    try:
        return str(decode_state(encoded))
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError, RecursionError) as error:
        raise StateError(f"it cannot be written as text: {error}"[:500]) from None


def canonical_json(encoded: Any) -> str:
    """One text for one encoded value: sorted keys, no spaces, ASCII. Raises StateError if it is not JSON."""
    try:
        return codec.canonical_json(encoded)
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError(f"the value is not an encoded state: {error}") from None


def state_hash(encoded: Any) -> str:
    """SHA-256, in hex, of the canonical JSON. Raises StateError if the value is not JSON."""
    try:
        return codec.state_hash(encoded)
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError(f"the value is not an encoded state: {error}") from None


def make_patch(old: Any, new: Any) -> Patch:
    """The RFC 6902 operations that turn one encoded state into another; empty when they are equal."""
    return patches.make_patch(old, new)


def same_encoded(old: Any, new: Any) -> bool:
    """Whether two encoded values are equal, types included, whatever the order of their keys."""
    return old is new or patches.alike(old, new) or patches.same(old, new)


def apply_patch(state: State, patch: Patch) -> State:
    """The patched state. What the patch touches is copied and the rest shared: the input stays as it was.

    Raises StateError when the patch is malformed or does not fit.
    """
    try:
        patched: State = patches.apply_patch(state, patch)
    except codec.EncodingError as error:
        raise StateError(str(error)) from None
    return patched


def share_unchanged(old: Any, new: Any) -> Any:
    """`new`, order of keys included, built of the parts of `old` that are exactly equal: many alike cost little."""
    if old is new or type(old) is not type(new):
        return new
    if patches.alike(old, new):
        return old
    if type(new) is dict:
        return {key: share_unchanged(old[key], item) if key in old else item for key, item in new.items()}
    if type(new) is list:
        return [share_unchanged(*pair) for pair in zip(old, new, strict=False)] + new[len(old) :]
    return new
