"""The report of the sandbox on its own protection."""

from __future__ import annotations

from typing import Literal

from synthesis.contracts import Frozen


class Layer(Frozen):
    name: str
    active: bool
    detail: str = ""


class SandboxReport(Frozen):
    """The layers that protect the host from programs right now; shown on /healthz and in the docs."""

    mode: Literal["root", "user", "no_namespaces", "reduced"]
    layers: tuple[Layer, ...]
    preloaded: tuple[str, ...]
