"""Choices of the form of a new training job: datasets, models, presets, jobs to come after. Lists are short."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

from training import presets
from training.job import ANY_MODEL
from webapp.datasets.models import Dataset, DatasetState, FileState, StoredFile
from webapp.endpoints.queries import choices
from webapp.runs.candidates import candidates
from webapp.runs.models import TrainingJob, TrainingState
from webapp.runs.setting_labels import KIND_OF
from webapp.runs.spec import AFTER, DEMO_MODEL, ENDPOINT

LISTED = 200
NEWEST = 20


@dataclass(frozen=True)
class Offer:
    """An option of a select field: `value` goes into the field, `words` say what it is."""

    value: str
    words: str


def sentence_of(dataset: Dataset) -> str:
    """The sentence that stands beside every result on a dataset, in full."""
    return str(dataset.manifest.get("sentence") or "") or split_of(dataset)


def split_of(dataset: Dataset) -> str:
    """The same sentence from the row's columns alone, for lists that leave manifests out."""
    if dataset.state == DatasetState.FREEZING:
        return "being frozen"
    told = f"{dataset.train_rows:,} {dataset.kind}"
    if not dataset.test_rows:
        return f"{told}, nothing held out"
    return f"{told} to learn from, {dataset.test_rows:,} held out; {split_words(dataset)}"


def split_words(dataset: Dataset) -> str:
    """What a dataset's held-out rows are split by; empty where nothing is held out."""
    return f"split by {dataset.split.get('unit', 'environment')}" if dataset.test_rows else ""


def datasets(kind: str, chosen: str = "") -> list[Offer]:
    """The newest ones that a job can learn from, with the chosen one, and checked files."""
    usable = Q(state__in=(DatasetState.READY, DatasetState.FREEZING), kind=kind, archived=False)
    rows = list(Dataset.objects.filter(usable).defer("selection", "left_out").order_by("-id")[:LISTED])
    if chosen.startswith("ds-") and chosen not in {row.public_id for row in rows}:
        rows += list(Dataset.objects.filter(public_id=chosen).defer("selection", "left_out"))
    return [Offer(row.public_id, f"{row.name}: {sentence_of(row)}") for row in rows] + _files(kind, chosen)


def _files(kind: str, chosen: str) -> list[Offer]:
    """Uploaded files, which are frozen as a whole when a job is made of them."""
    usable = StoredFile.objects.filter(state=FileState.PROCESSED, deleted_at=None).only("public_id", "filename")
    rows = list(usable.filter(kind=kind).order_by("-id")[:NEWEST])
    if chosen.startswith("file-") and chosen not in {row.public_id for row in rows}:
        rows += list(usable.filter(public_id=chosen))
    return [Offer(row.public_id, f"file {row.filename}, all of it") for row in rows]


def evaluations(method: str, chosen: str = "") -> list[Offer]:
    """Datasets of tasks to evaluate on; RL takes its own held-out side where none is named."""
    if method == "evaluation":
        return [Offer("", "the dataset above")]
    own = "its own held-out side" if method == "reinforcement" else "nothing: loss and token accuracy alone"
    return [Offer("", own), *datasets("tasks", chosen)]


def models(method: str) -> list[Offer]:
    """Names of models that are known, with what each is."""
    words = {DEMO_MODEL: "a tiny model, built from the dataset's words on the spot; it knows nothing before SFT"}
    if method == "evaluation":
        words = {f"{ENDPOINT}{served.value}"[:300]: f"behind the endpoint {served.label}" for served in choices()}
    words[AFTER] = "what the job ends with that is chosen under After"
    for candidate in candidates()[:NEWEST]:
        for name in sorted(candidate.models - {ANY_MODEL})[:NEWEST]:
            words.setdefault(name[:300], f"lies at the worker {candidate.name}")
    done = TrainingJob.objects.filter(state=TrainingState.SUCCEEDED).exclude(method="evaluation").order_by("-id")
    for job in done.only("public_id", "name", "method")[:NEWEST]:
        words[f"ft:{job.public_id}"] = f"what {job.name or 'that job'} ended with ({job.method})"
    return [Offer(name, text) for name, text in words.items()]


def jobs_before(chosen: str = "") -> list[Offer]:
    """Jobs that another one may come after: open ones and those that have succeeded."""
    rows = TrainingJob.objects.exclude(state__in=(TrainingState.FAILED, TrainingState.CANCELLED))
    jobs = list(rows.only("public_id", "name", "state").order_by("-id")[: NEWEST * 2])
    if chosen and chosen not in {row.public_id for row in jobs}:
        jobs += list(TrainingJob.objects.filter(public_id=chosen).only("public_id", "name", "state"))
    offers = [Offer(row.public_id, f"{row.name or row.public_id} ({row.state.replace('_', ' ')})") for row in jobs]
    return [Offer("", "nothing: it is queued at once"), *offers]


def presets_of(method: str) -> list[presets.Preset]:
    """Presets of a method, those of papers first."""
    method_presets = [preset for preset in map(presets.load, presets.names()) if preset.config.type == method]
    return sorted(method_presets, key=lambda preset: not preset.paper)


def kind_of(method: str) -> str:
    return KIND_OF[method]
