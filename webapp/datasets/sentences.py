"""Sentences that describe the rows of a dataset: how many, and what the held-out ones are split by."""

from __future__ import annotations

from webapp.datasets.models import Dataset, DatasetState


def get_sentence(dataset: Dataset, pending: str = "") -> str:
    """Return the sentence that is shown with every result on a dataset; `pending` if it is not ready."""
    if dataset.state != DatasetState.READY:
        return pending
    return str(dataset.manifest.get("sentence") or format_row_counts(dataset))


def format_row_counts(dataset: Dataset) -> str:
    """Return the sentence from the columns of the row alone, for lists that leave manifests out."""
    if dataset.state == DatasetState.FREEZING:
        return "being frozen"
    counts = f"{dataset.train_rows:,} {dataset.kind}"
    if not dataset.test_rows:
        return f"{counts}, nothing held out"
    return f"{counts} to learn from, {dataset.test_rows:,} held out; {format_split(dataset)}"


def format_split(dataset: Dataset) -> str:
    """Return what a dataset's held-out rows are split by; empty if nothing is held out."""
    return f"split by {dataset.split.get('unit', 'environment')}" if dataset.test_rows else ""
