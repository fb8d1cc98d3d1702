"""Memory of a training job: what it needs, by strategy, which workers have it, and what would make it fit."""

from __future__ import annotations

from collections.abc import Sequence

from synthesis.contracts import Frozen
from training.config import EvaluationJob, JobConfig
from training.memory import (
    GIB,
    USABLE,
    ModelShape,
    RankMemory,
    Room,
    estimate_need,
    estimate_shape,
    find_remedies,
    settle_hardware,
)
from webapp.runs.preflight.candidates import Candidate
from webapp.runs.preflight.estimates import estimate_parameters
from webapp.runs.spec import DEMO_MODEL, ENDPOINT

ASSUMED = 80 * GIB
"""A GPU's memory if no worker reports any memory."""
SHOWN = 12
_DEMO = ModelShape(1_000_000, 4, 128, 256, 4, 2, 32, 1_000)


class WorkerMemory(Frozen):
    """GPUs of a worker (`gpus` of `device_bytes` each, the smallest one counts) and what the job needs of each. A
    worker without GPUs has its main memory as `device_bytes`. Beside GPUs `offloaded` bytes lie in main memory, of
    which the worker may use `main_bytes` (0: unknown). `bar` is what keeps the job from it whatever its memory."""

    worker: str
    gpus: int
    device_bytes: int
    bytes: int
    fits: bool
    offloaded: int = 0
    main_bytes: int = 0
    bar: str = ""


class Memory(Frozen):
    """Estimated memory: `bytes` are needed on each of `gpus` GPUs, or of main memory if `gpus` is 0, at the peak;
    `parts` is what they are made of then. `workers` are those that could take the job but for its memory; if none
    reports its memory, a GPU of `device_bytes` is assumed. `remedies` are changes that make the job fit, if it fits
    none."""

    bytes: int
    parameters: int
    gpus: int
    device_bytes: int
    sharding: str
    parts: dict[str, int]
    workers: tuple[WorkerMemory, ...]
    fits: bool
    remedies: tuple[str, ...]
    note: str
    offloaded: int = 0
    main_bytes: int = 0
    bar: str = ""

    @property
    def lines(self) -> list[tuple[str, int]]:
        """Name and bytes of each part."""
        return list(self.parts.items())

    @property
    def tightest(self) -> tuple[int, str, int]:
        """(Bytes needed, kind of memory, bytes there) of the memory that is fullest."""
        if self.main_bytes and self.offloaded / self.main_bytes > self.bytes / self.device_bytes:
            return self.offloaded, "of main memory for what is offloaded", self.main_bytes
        where = f"on each of {self.gpus} GPUs" if self.gpus > 1 else "on one GPU" if self.gpus else "of main memory"
        return self.bytes, where, self.device_bytes

    @property
    def there(self) -> str:
        """Total of the fullest memory at the worker, and the share of it that counts."""
        return f"{self.tightest[2] / GIB:.0f} GiB, of which {USABLE:.0%} count"


def estimate_memory(
    base: str, config: JobConfig | None, engine: str, here: Sequence[Candidate]
) -> tuple[Memory | None, str]:
    """Return (memory on the worker that has most to spare, why it is not known). `here` are those that may take the
    job."""
    if config is None:
        return None, "the configuration does not fit"
    if base.startswith(ENDPOINT):
        return None, "the model is elsewhere: nothing of it lies at the worker"
    parameters, known = estimate_parameters(base)
    if not parameters:
        return None, known
    shape = _DEMO if base == DEMO_MODEL else estimate_shape(parameters)
    workers = [
        _build_worker_memory(one.name, shape, config, room, engine)
        for one in here
        if (room := get_room(one)) is not None
    ]
    workers.sort(key=lambda one: (not one.fits, not one.gpus, one.bytes / one.device_bytes))
    best = workers[0] if workers else _build_worker_memory("", shape, config, Room(1, ASSUMED), engine)
    room = Room(best.gpus, best.device_bytes, best.main_bytes)
    sharding, need = _estimate_need(shape, config, room, engine)
    changes: tuple[str, ...] = ()
    if not best.fits and not isinstance(config, EvaluationJob):
        whole = settle_hardware(shape, config, room, engine)
        changes = tuple(remedy.words for remedy in find_remedies(shape, whole, room, engine))
    return Memory(
        bytes=best.bytes,
        parameters=parameters,
        gpus=best.gpus,
        device_bytes=best.device_bytes,
        sharding=sharding,
        parts={name: round(part) for name, part in need.parts.items()},
        workers=tuple(workers[:SHOWN]),
        fits=best.fits,
        remedies=changes,
        note=_describe_basis(base, config, known, workers),
        offloaded=best.offloaded,
        main_bytes=best.main_bytes,
        bar=best.bar,
    ), ""


def get_room(candidate: Candidate) -> Room | None:
    """Return the memory that a candidate reports; None if it reports none."""
    main = candidate.main_memory << 20
    if candidate.devices:
        each = min(candidate.devices) << 20
        return Room(len(candidate.devices), each, main) if each > 0 else None
    return Room(0, main, main) if main > 0 else None


def _estimate_need(shape: ModelShape, config: JobConfig, room: Room, engine: str) -> tuple[str, RankMemory]:
    """Return (sharding, memory) of a job at a worker."""
    if isinstance(config, EvaluationJob):
        return "copies", RankMemory({"weights": 4.0 * shape.parameters}, {})
    sharding = settle_hardware(shape, config, room, engine).hardware.sharding
    return sharding, estimate_need(shape, config, room, engine)


def _build_worker_memory(name: str, shape: ModelShape, config: JobConfig, room: Room, engine: str) -> WorkerMemory:
    _, need = _estimate_need(shape, config, room, engine)
    return WorkerMemory(
        worker=name,
        gpus=room.gpus,
        device_bytes=round(room.each),
        bytes=sum(round(part) for part in need.parts.values()),
        fits=room.holds(need),
        offloaded=round(room.count_offloaded_bytes(need)),
        main_bytes=round(room.main),
        bar=need.bar,
    )


def _describe_basis(base: str, config: JobConfig, known: str, workers: Sequence[WorkerMemory]) -> str:
    """Describe the basis of the estimate, and what it leaves out."""
    if isinstance(config, EvaluationJob):
        like = "; weights in float32, keys and values come on top"
    else:
        like = "" if base == DEMO_MODEL else ", in layers like those of a Qwen3 of that size"
    if not workers:
        return f"{known}{like}; no worker reports its memory, so one GPU of {ASSUMED // GIB} GiB is assumed"
    if workers[0].gpus:
        return f"{known}{like}"
    return f"{known}{like}; torch, the sandbox and other programs of the computer come on top"
