"""Memory of a training job: what each GPU needs, by strategy, which workers have it, and what would make it fit."""

from __future__ import annotations

from collections.abc import Sequence

from synthesis.contracts import Frozen
from training.config import EvaluationJob, JobConfig
from training.memory import GIB, USABLE, ModelShape, decided, rank_memory, remedies, shape_like
from webapp.runs.candidates import Candidate
from webapp.runs.launch.estimates import parameters_of
from webapp.runs.spec import DEMO_MODEL, ENDPOINT

ASSUMED = 80 * GIB
"""A GPU's memory where no worker here has one."""
SHOWN = 12
_DEMO = ModelShape(1_000_000, 4, 128, 256, 4, 2, 32, 1_000)


class WorkerMemory(Frozen):
    """A worker's GPUs (`gpus` of `device_bytes` each, the smallest one counts) and what the job needs of each."""

    worker: str
    gpus: int
    device_bytes: int
    bytes: int
    fits: bool


class Memory(Frozen):
    """Estimated memory: `bytes` are needed on each of `gpus` GPUs at the moment when most are, `parts` is what they are
    made of there. `workers` are those that could take the job but for that; without one that has a GPU, a GPU of
    `device_bytes` is assumed. `remedies` are changes that make the job fit, where it fits none."""

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

    @property
    def lines(self) -> list[tuple[str, int]]:
        """Name and bytes of each part."""
        return list(self.parts.items())


def memory_of(base: str, config: JobConfig | None, engine: str, here: Sequence[Candidate]) -> tuple[Memory | None, str]:
    """(memory on the worker that has most to spare, why it is not known). `here` are those that may take the job."""
    if config is None:
        return None, "the configuration does not fit"
    if base.startswith(ENDPOINT):
        return None, "the model is elsewhere: nothing of it lies at the worker"
    parameters, known = parameters_of(base)
    if not parameters:
        return None, known
    shape = _DEMO if base == DEMO_MODEL else shape_like(parameters)
    found = [(one, len(one.devices), min(one.devices) << 20) for one in here if one.devices and min(one.devices) > 0]
    workers = [_worker(one.name, shape, config, gpus, size, engine) for one, gpus, size in found]
    workers.sort(key=lambda one: one.bytes / one.device_bytes)
    gpus, size = (workers[0].gpus, workers[0].device_bytes) if workers else (1, ASSUMED)
    if isinstance(config, EvaluationJob):
        parts, sharding = {"weights": 4.0 * shape.parameters}, "copies"
        fits = parts["weights"] <= USABLE * size
        changes: tuple[str, ...] = ()
        like = "; weights in float32, keys and values come on top"
    else:
        settled = decided(shape, config, gpus, size, engine)
        need = rank_memory(shape, settled, gpus, engine)
        parts, sharding, fits = need.parts, settled.hardware.sharding, need.bytes <= USABLE * size
        changes = () if fits else tuple(remedy.words for remedy in remedies(shape, settled, gpus, size, engine))
        like = "" if base == DEMO_MODEL else ", in layers like those of a Qwen3 of that size"
    where = "" if workers else f"; no worker with a GPU is here, so one GPU of {ASSUMED // GIB} GiB is assumed"
    return Memory(
        bytes=round(sum(parts.values())),
        parameters=parameters,
        gpus=gpus,
        device_bytes=size,
        sharding=sharding,
        parts={name: round(part) for name, part in parts.items()},
        workers=tuple(workers[:SHOWN]),
        fits=fits,
        remedies=changes,
        note=f"{known}{like}{where}",
    ), ""


def _worker(name: str, shape: ModelShape, config: JobConfig, gpus: int, size: int, engine: str) -> WorkerMemory:
    if isinstance(config, EvaluationJob):
        need = 4.0 * shape.parameters
    else:
        need = rank_memory(shape, decided(shape, config, gpus, size, engine), gpus, engine).bytes
    return WorkerMemory(worker=name, gpus=gpus, device_bytes=size, bytes=round(need), fits=need <= USABLE * size)
