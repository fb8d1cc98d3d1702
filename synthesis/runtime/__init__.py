"""The sandbox runtime: episodes of untrusted programs, and the tools to read and check these programs.

sandbox = default_sandbox()
with sandbox.reset(program, initial_state) as episode:
    result = episode.call("book_slot", {"day": "2025-01-02"})

How a call runs. `Sandbox` (`sandbox.py`, on the host) keeps one zygote (`process.py`): a fresh interpreter with an
empty environment that imports the allowed modules, enters namespaces with an empty root if the system grants them,
and forks children ahead of need (`pool.py`). Each child locks itself in (rlimits, own uid as root, no capability,
Landlock, seccomp allow-list) before it sees anything; it has no clock but a virtual one (`child/virtual.py`), since the
zygote took the real one away (`child/vdso.py`). `reset` hands a child the program, state, seed and clock; `call`
sends one datagram and gets result and JSON Patch back. The host checks every frame (`frames.py`): size, depth, id,
shape. Each check of a verifier runs in a child of its own. The same runtime serves import, replay, the playground,
rollouts, audits and training.

Modes: `root`, `user` (user namespaces), `no_namespaces` (containers), `reduced` (macOS). `/healthz` shows the
active layers as tried from inside a child.
"""

from synthesis.runtime.child.schema import validate_arguments
from synthesis.runtime.encoding import (
    apply_patch,
    decode_state,
    encode_state,
    format_decoded,
    hash_state,
    is_same_encoded,
    make_patch,
    to_canonical_json,
)
from synthesis.runtime.episode import Episode
from synthesis.runtime.offered_tools import restrict_program, restrict_tools
from synthesis.runtime.program import (
    ALLOWED_MODULES,
    Method,
    MethodParameter,
    ProgramOutline,
    check_program,
    outline_program,
)
from synthesis.runtime.sandbox import Sandbox, get_default_sandbox
from synthesis.runtime.signature import derive_working_schema, parse_annotation_schema, schema_findings, strip_arguments

__all__ = [
    "ALLOWED_MODULES",
    "Episode",
    "Method",
    "MethodParameter",
    "ProgramOutline",
    "Sandbox",
    "apply_patch",
    "check_program",
    "decode_state",
    "derive_working_schema",
    "encode_state",
    "format_decoded",
    "get_default_sandbox",
    "hash_state",
    "is_same_encoded",
    "make_patch",
    "outline_program",
    "parse_annotation_schema",
    "restrict_program",
    "restrict_tools",
    "schema_findings",
    "strip_arguments",
    "to_canonical_json",
    "validate_arguments",
]
