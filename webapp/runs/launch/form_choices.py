"""Choices of the form of a new training job: datasets, models, presets, jobs to come after. Lists are short."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

from training import presets
from training.job import ANY_MODEL
from webapp.datasets.models import Dataset, DatasetState, FileState, StoredFile
from webapp.datasets.queries import format_row_counts
from webapp.endpoints.queries import list_model_choices
from webapp.runs.models import TrainingJob, TrainingState
from webapp.runs.preflight.candidates import list_candidates
from webapp.runs.setting_labels import KIND_OF
from webapp.runs.spec import AFTER, DEMO_MODEL, ENDPOINT

LISTED = 200
NEWEST = 20


@dataclass(frozen=True)
class Offer:
    """Option of a select field: `value` goes into the field, `words` say what it is."""

    value: str
    words: str


def offer_datasets(kind: str, chosen: str = "") -> list[Offer]:
    """Offer the newest datasets that a job can learn from, with the chosen one, and checked files."""
    usable = Q(state__in=(DatasetState.READY, DatasetState.FREEZING), kind=kind, archived=False)
    rows = list(Dataset.objects.filter(usable).defer("selection", "left_out").order_by("-id")[:LISTED])
    if chosen.startswith("ds-") and chosen not in {row.public_id for row in rows}:
        rows += list(Dataset.objects.filter(public_id=chosen).defer("selection", "left_out"))
    return [Offer(row.public_id, f"{row.name}: {format_row_counts(row)}") for row in rows] + _offer_files(kind, chosen)


def _offer_files(kind: str, chosen: str) -> list[Offer]:
    """Offer uploaded files, which are frozen as a whole when a job is made of them."""
    usable = StoredFile.objects.filter(state=FileState.PROCESSED, deleted_at=None).only("public_id", "filename")
    rows = list(usable.filter(kind=kind).order_by("-id")[:NEWEST])
    if chosen.startswith("file-") and chosen not in {row.public_id for row in rows}:
        rows += list(usable.filter(public_id=chosen))
    return [Offer(row.public_id, f"file {row.filename}, all of it") for row in rows]


def offer_evaluations(method: str, chosen: str = "") -> list[Offer]:
    """Offer datasets of tasks to evaluate on; RL takes its own held-out side if none is named."""
    if method == "evaluation":
        return [Offer("", "the dataset above")]
    own = "its own held-out side" if method == "reinforcement" else "nothing: loss and token accuracy alone"
    return [Offer("", own), *offer_datasets("tasks", chosen)]


def offer_models(method: str) -> list[Offer]:
    """Offer names of models that are known, with what each is."""
    words = {DEMO_MODEL: "a tiny model, built from the dataset's words on the spot; it knows nothing before SFT"}
    if method == "evaluation":
        words = {
            f"{ENDPOINT}{served.value}"[:300]: f"behind the endpoint {served.label}" for served in list_model_choices()
        }
    words[AFTER] = "what the job ends with that is chosen under After"
    for candidate in list_candidates()[:NEWEST]:
        for name in sorted(candidate.models - {ANY_MODEL})[:NEWEST]:
            words.setdefault(name[:300], f"lies at the worker {candidate.name}")
    done = TrainingJob.objects.filter(state=TrainingState.SUCCEEDED).exclude(method="evaluation").order_by("-id")
    for job in done.only("public_id", "name", "method")[:NEWEST]:
        words[f"ft:{job.public_id}"] = f"what {job.name or 'that job'} ended with ({job.method})"
    return [Offer(name, text) for name, text in words.items()]


def offer_jobs_before(chosen: str = "") -> list[Offer]:
    """Offer jobs that another one may come after: open ones and those that have succeeded."""
    rows = TrainingJob.objects.exclude(state__in=(TrainingState.FAILED, TrainingState.CANCELLED))
    jobs = list(rows.only("public_id", "name", "state").order_by("-id")[: NEWEST * 2])
    if chosen and chosen not in {row.public_id for row in jobs}:
        jobs += list(TrainingJob.objects.filter(public_id=chosen).only("public_id", "name", "state"))
    offers = [Offer(row.public_id, f"{row.name or row.public_id} ({row.state.replace('_', ' ')})") for row in jobs]
    return [Offer("", "nothing: it is queued at once"), *offers]


def list_presets(method: str) -> list[presets.Preset]:
    """Return presets of a method, those of papers first."""
    method_presets = [
        preset for preset in map(presets.load_preset, presets.list_presets()) if preset.config.type == method
    ]
    return sorted(method_presets, key=lambda preset: not preset.paper)


def get_dataset_kind(method: str) -> str:
    return KIND_OF[method]
