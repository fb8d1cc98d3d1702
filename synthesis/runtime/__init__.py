"""The sandbox runtime: episodes of programs nobody trusts, and what is needed to read and check them.

sandbox = default_sandbox()
with sandbox.reset(program, initial_state) as episode:
    result = episode.call("book_slot", {"day": "2025-01-02"})

How a call runs. `Sandbox` (`sandbox.py`, on the host) keeps one zygote (`process.py`): a fresh interpreter with an
empty environment that imports the allowed modules, enters namespaces with an empty root where the system grants them,
and forks children ahead of need (`pool.py`). Each child locks itself in (rlimits, own uid as root, no capability,
Landlock, seccomp allow-list) before it sees anything; it has no clock but a virtual one (`child/virtual.py`), since the
zygote took the real one away (`child/vdso.py`). `reset` hands a child the program, state, seed and clock; `call`
sends one datagram and gets result and JSON Patch back. The host checks every frame (`frames.py`): size, depth, id,
shape. Checks of a verifier run in children of their own. The same runtime serves import, replay, the playground,
rollouts, audits and training.

Modes: `root`, `user` (user namespaces), `no_namespaces` (containers), `reduced` (macOS, says so). `/healthz` shows the
active layers as tried from inside a child.
"""

from synthesis.runtime.child.schema import validate_arguments
from synthesis.runtime.encoding import (
    apply_patch,
    canonical_json,
    decode_state,
    encode_state,
    make_patch,
    plain_text,
    same_encoded,
    state_hash,
)
from synthesis.runtime.episode import Episode
from synthesis.runtime.offered_tools import offered, offered_tools
from synthesis.runtime.program import (
    ALLOWED_MODULES,
    Method,
    MethodParameter,
    ProgramOutline,
    check_program,
    outline,
)
from synthesis.runtime.sandbox import Sandbox, default_sandbox
from synthesis.runtime.signature import annotation_schema, schema_findings, without_arguments, working_schema

__all__ = [
    "ALLOWED_MODULES",
    "Episode",
    "Method",
    "MethodParameter",
    "ProgramOutline",
    "Sandbox",
    "annotation_schema",
    "apply_patch",
    "canonical_json",
    "check_program",
    "decode_state",
    "default_sandbox",
    "encode_state",
    "make_patch",
    "offered",
    "offered_tools",
    "outline",
    "plain_text",
    "same_encoded",
    "schema_findings",
    "state_hash",
    "validate_arguments",
    "without_arguments",
    "working_schema",
]
