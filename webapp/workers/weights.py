"""Weights of uploaded checkpoints: tensors by name and shape, compared with the job's model as far as it is known."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import IO, Any

from django.core.files.storage import default_storage

from synthesis.errors import InputError
from synthesis.parser import read_in_process
from training.job import MANIFEST
from webapp.common.errors import Unusable
from webapp.runs.checkpoint_files import ADAPTER, get_model_parts, ready_checkpoints
from webapp.runs.models import Checkpoint, CheckpointFile, TrainingJob
from webapp.runs.preflight.estimates import estimate_parameters
from webapp.runs.preflight.job_lookup import get_base_model
from webapp.workers.errors import WrongHash
from webapp.workers.safetensors_header import MOST_BYTES

READER = "webapp.workers.safetensors_header:tensors_of"
SUFFIX = ".safetensors"
CONFIG_BYTES = 1 << 20
NAMED_SIZE = (0.5, 2.0)
"""A model has so many times the parameters that its name says, at least and at most: names are round, and some leave
embeddings out."""
Shapes = Mapping[str, tuple[int, ...]]
WIDTH, DEPTH, WORDS = (
    ("hidden_size", "n_embd", "d_model"),
    ("num_hidden_layers", "n_layer", "num_layers"),
    ("vocab_size",),
)
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d{1,5})\.")


def require_format(path: str, stream: IO[bytes], size: int) -> None:
    """Raise WrongHash for weights that are not a safetensors file, such as a pickle under another name, or whose header
    does not describe the data of the file."""
    try:
        _parse_headers([(_read_header(stream, size), size)])
    except InputError as error:
        raise WrongHash(f"{path} is no safetensors file: {error}") from error


def require_same_model(checkpoint: Checkpoint) -> None:
    """Compare a complete checkpoint with its own `config.json` and with the job's model as far as it is known: tensors
    of the model that it began with, or of its own earlier checkpoints, else the size in the model's name.

    Raises Unusable.
    """
    files = {file.path: file for file in checkpoint.files.all()}
    if MANIFEST in files and not checkpoint.final:
        return
    shapes = _read_shapes(checkpoint)
    if "config.json" in files:
        _require_config(_read_config(files["config.json"]), shapes)
    expected = None if ADAPTER in files else _read_first_shapes(checkpoint.job)
    what = "the model that the job began with"
    if expected is None:
        expected, what = _read_earlier_shapes(checkpoint, ADAPTER in files), "an earlier checkpoint of the job"
    if expected is not None:
        _require_same(shapes, expected, what)
    elif ADAPTER not in files:
        _require_size(checkpoint.job, shapes)


def _read_shapes(checkpoint: Checkpoint) -> Shapes:
    headers = []
    for file in checkpoint.files.all():
        if file.path.endswith(SUFFIX):
            with default_storage.open(file.stored, "rb") as stored:
                headers.append((_read_header(stored, file.bytes), file.bytes))
    try:
        return _parse_headers(headers)
    except InputError as error:
        raise Unusable(f"files: {error}.") from error


def _read_header(stream: IO[bytes], size: int) -> bytes:
    """Return the header of a file of `size` bytes. Raises InputError: it has none."""
    stream.seek(0)
    length = int.from_bytes(stream.read(8), "little")
    if not 2 <= length <= min(MOST_BYTES, size - 8):
        raise InputError(f"a header of {length:,} bytes; from 2 to {MOST_BYTES:,}, and no more than it has, are taken")
    return stream.read(length)


def _parse_headers(headers: Sequence[tuple[bytes, int]]) -> Shapes:
    sizes = [(len(header), size - 8 - len(header)) for header, size in headers]
    read = read_in_process(READER, io.BytesIO(b"".join(header for header, _ in headers)), {"sizes": sizes})
    return {name: tuple(shape) for name, shape in read}


def _read_first_shapes(job: TrainingJob) -> Shapes | None:
    """Return the tensors of the model that the job began with, if it lies here."""
    try:
        begun = get_model_parts(job).whole
    except InputError:
        return None
    return _read_shapes(begun) if begun is not None else None


def _read_earlier_shapes(checkpoint: Checkpoint, adapters: bool) -> Shapes | None:
    rows = ready_checkpoints(Checkpoint.objects.filter(job=checkpoint.job)).exclude(pk=checkpoint.pk).exclude(bytes=0)
    rows = rows.exclude(files__path=MANIFEST).exclude(files__stored="")
    rows = rows.filter(files__path=ADAPTER) if adapters else rows.exclude(files__path=ADAPTER)
    row = rows.order_by("-pk").first()
    return _read_shapes(row) if row is not None else None


def _require_same(found: Shapes, known: Shapes, what: str) -> None:
    for name in sorted(known.keys() | found.keys()):
        if found.get(name) != known.get(name):
            here, there = (
                f"has the shape {list(one[name])}" if name in one else "is not there" for one in (found, known)
            )
            raise Unusable(f"files: the tensor {name[:100]!a} {here}; in {what} it {there}.")


def _require_size(job: TrainingJob, found: Shapes) -> None:
    due, known = estimate_parameters(get_base_model(job))
    count = sum(math.prod(shape) for shape in found.values())
    if due and not NAMED_SIZE[0] * due <= count <= NAMED_SIZE[1] * due:
        raise Unusable(f"files: the weights have {count:,} parameters; the job's model has {due:,} ({known}).")


def _require_config(config: dict[str, Any], found: Shapes) -> None:
    """Raise Unusable if the width, the number of layers or the vocabulary of a configuration is not that of the
    weights."""
    text_config = config.get("text_config") if isinstance(config.get("text_config"), dict) else config
    width, depth, words = (_get_first_count(text_config, names) for names in (WIDTH, DEPTH, WORDS))
    if not width or not depth or not words:
        raise Unusable(f"files: config.json does not name {WIDTH[0]}, {DEPTH[0]} and {WORDS[0]} of a model.")
    if not any(len(shape) == 2 and shape[0] >= words and shape[1] == width for shape in found.values()):
        raise Unusable(f"files: config.json names {words:,} tokens of width {width:,}; no tensor holds them.")
    layers = {int(match[1]) for name in found if (match := _LAYER.search(name))}
    if layers != set(range(depth)):
        raise Unusable(f"files: config.json names {depth} layers; the weights hold {len(layers)}.")


def _get_first_count(config: Any, names: Sequence[str]) -> int:
    values = [config.get(name) for name in names]
    return next((value for value in values if type(value) is int and value > 0), 0)


def _read_config(file: CheckpointFile) -> dict[str, Any]:
    with default_storage.open(file.stored, "rb") as stored:
        text = stored.read(CONFIG_BYTES + 1)
    try:
        config = json.loads(text) if len(text) <= CONFIG_BYTES else None
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise Unusable(f"files: config.json is no JSON object of at most {CONFIG_BYTES >> 20} MiB.")
    return config
