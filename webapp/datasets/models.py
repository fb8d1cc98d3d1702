"""Rows of datasets and uploaded files."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F

from webapp.common.fields import OrderedJSONField
from webapp.common.public_ids import public_id_field
from webapp.jobs.models import Job


class FileState(models.TextChoices):
    """OpenAI's statuses of a file."""

    UPLOADED = "uploaded"
    PROCESSED = "processed"
    ERROR = "error"


class StoredFile(models.Model):
    """A file of `/api/v1/files`: JSON Lines, checked line by line (`report` is an `UploadReport`). `stored` is its name
    in the file store, `kind` the kind of its rows: tasks or trajectories.

    With `leave_out` the lines that cannot be used are not kept; `bytes` and `sha256` are of what is kept, those of the
    report of what was sent.
    """

    public_id = public_id_field("file")
    filename = models.CharField(max_length=200)
    purpose = models.CharField(max_length=32, default="fine-tune")
    kind = models.CharField(max_length=16, blank=True)
    state = models.CharField(max_length=12, choices=FileState.choices, default=FileState.UPLOADED)
    leave_out = models.BooleanField(default=False)
    stored = models.CharField(max_length=200, blank=True)
    bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64, blank=True)
    report = OrderedJSONField(default=dict)
    deleted_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(F("id").desc(), name="storedfile_newest")]


class DatasetState(models.TextChoices):
    FREEZING = "freezing"
    READY = "ready"
    FAILED = "failed"


class Dataset(models.Model):
    """A frozen selection of tasks or trajectories, or an uploaded file that was split and frozen.

    `stored` is the folder in the file store with `train.jsonl`, `test.jsonl` and `manifest.json` (`training.dataset`).
    `selection` is the filter, `left_out` why rows of it are not here (words to number). A row's id is `revision:PK` or
    `trajectory:PK` if it was chosen here (`source` is `selection`); with `file` it is the uploader's own.
    """

    public_id = public_id_field("ds")
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=16)
    source = models.CharField(max_length=16, default="selection")
    file = models.ForeignKey(StoredFile, null=True, blank=True, on_delete=models.PROTECT, related_name="datasets")
    selection = OrderedJSONField(default=dict)
    split = OrderedJSONField(default=dict)
    state = models.CharField(max_length=12, choices=DatasetState.choices, default=DatasetState.FREEZING)
    error = models.TextField(blank=True)
    job = models.ForeignKey(Job, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    stored = models.CharField(max_length=200, blank=True)
    sha256 = models.CharField(max_length=64, blank=True)
    manifest = OrderedJSONField(default=dict)
    """A `training.dataset.Manifest`; its `sentence` is shown with every result."""
    left_out = OrderedJSONField(default=dict)
    tokens = OrderedJSONField(default=dict)
    """What the preflight knows of lengths: characters by row as {mean, p95, most}."""
    train_rows = models.PositiveIntegerField(default=0)
    test_rows = models.PositiveIntegerField(default=0)
    environments = models.PositiveIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    licence = models.CharField(max_length=100, blank=True, default="")
    """Licence of its rows, as stated by its maker: an SPDX identifier or words."""
    archived = models.BooleanField(default=False)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [
            models.Index(F("id").desc(), name="dataset_newest"),
            models.Index(fields=["kind", "state", "-id"], name="dataset_of_kind"),
            models.Index(fields=["sha256"], name="dataset_by_hash"),
        ]

    def __str__(self) -> str:
        return self.name


class RowExecution(models.Model):
    """The result of executing a row of a dataset again (`evidence/executions.py`), by which a restarted job continues.

    `basis` is the hash of what was executed and compared. Once a dataset is frozen, only those that were left out are
    kept.
    """

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="executions")
    row = models.CharField(max_length=40)
    basis = models.CharField(max_length=64)
    verdict = models.CharField(max_length=8)
    words = models.TextField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["dataset", "row"], name="rowexecution_once")]


class ExportState(models.TextChoices):
    """States of an export. A cleared one was made once, and its file is gone."""

    MAKING = "making"
    READY = "ready"
    FAILED = "failed"
    CLEARED = "cleared"


class DatasetExport(models.Model):
    """A dataset in another form and format, as an archive in the file store (`stored`, of so many `bytes`).

    `sha256` is that of the manifest in it, which has the hashes of the files; `files` lists them.
    """

    public_id = public_id_field("dsx")
    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="exports")
    form = models.CharField(max_length=16)
    format = models.CharField(max_length=8)
    state = models.CharField(max_length=8, choices=ExportState.choices, default=ExportState.MAKING)
    error = models.TextField(blank=True)
    job = models.ForeignKey(Job, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    stored = models.CharField(max_length=200, blank=True)
    sha256 = models.CharField(max_length=64, blank=True)
    files = OrderedJSONField(default=list)
    rows = models.PositiveIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["dataset", "-id"], name="datasetexport_newest")]
        constraints = [
            models.UniqueConstraint(
                fields=["dataset", "form", "format"],
                condition=models.Q(state__in=["making", "ready"]),
                name="datasetexport_once",
            )
        ]
