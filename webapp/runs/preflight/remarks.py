"""Remarks of the preflight on fields of a new job, and the error that refuses one."""

from __future__ import annotations

from synthesis.contracts import Frozen
from synthesis.errors import InputError


class Remark(Frozen):
    """Fault or warning about a field. `param` is its place in the request (`training_file`, `changes.optimiser`)."""

    param: str
    code: str
    message: str


class RefusedJob(InputError):
    """Refusal of a job that cannot begin as it was asked for. `remarks` name the fields; the first one is the
    message."""

    def __init__(self, remarks: tuple[Remark, ...]) -> None:
        super().__init__(remarks[0].message)
        self.remarks = remarks
        self.param = remarks[0].param
