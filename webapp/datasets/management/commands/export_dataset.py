"""`manage.py export_dataset NAME --form trl --format jsonl --out DIR`: a frozen dataset's files, here and now."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from synthesis.errors import InputError
from training.dataset.files import MANIFEST, SIDES
from webapp.accounts.services import audit
from webapp.commands import as_json, one_clear_line, teller
from webapp.datasets.export.card import CARD
from webapp.datasets.export.files import write_files
from webapp.datasets.export.record_forms import FORMATS, FORMS, require_fit, require_format
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.storage import NEAR_FILE


class Command(BaseCommand):
    help = "Write a frozen dataset into a folder, in a form that other trainers and tools read, with a manifest."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="its id (ds-…), or its name where only one dataset has it")
        parser.add_argument("--form", choices=tuple(FORMS), default="trl")
        parser.add_argument("--format", choices=FORMATS, default="", help="by default the form's first")
        parser.add_argument(
            "--out", type=Path, help="a folder that is new or empty; by default one here, named by dataset and form"
        )
        parser.add_argument("--json", action="store_true", help="print the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path | None = options["out"]
        began, tell = time.monotonic(), teller(self.stderr.write)
        with one_clear_line():
            dataset = dataset_named(options["name"])
            written_as = require_format(options["format"], require_fit(options["form"], dataset.kind))
            if folder is None:
                folder = Path(f"{dataset.public_id}-{options['form']}-{written_as}")
                clear(folder)
            require_empty(folder)
            total = dataset.train_rows + dataset.test_rows
            audit(None, "dataset.export", dataset, form=options["form"], format=written_as)
            written = write_files(dataset, options["form"], written_as, folder, lambda rows: tell(rows, total, "rows"))
        result = {
            "dataset": dataset.public_id,
            "form": options["form"],
            "format": written_as,
            "rows": written.rows,
            "left_out": written.left_out,
            "seconds": round(time.monotonic() - began, 3),
            "sha256": written.sha256,
            "peak_rss_mib": peak_rss_mib(),
            "files": [file.model_dump() for file in written.files],
        }
        self.stderr.write(f"{written.rows} rows of {dataset.public_id} in {folder}")
        if written.left_out:
            told = f"{written.left_out} rows do not fit this form and were left out; manifest.json names them"
            self.stderr.write(told)
        self.stdout.write(as_json(result) if options["json"] else written.sha256)


def dataset_named(name: str) -> Dataset:
    """The frozen dataset of this id or name. Raises InputError: there is none, or several have the name."""
    ready = Dataset.objects.filter(state=DatasetState.READY)
    known = list(ready.filter(public_id=name)) or list(ready.filter(name=name, archived=False).order_by("-pk")[:6])
    if not known:
        raise InputError(f"There is no frozen dataset {name[:80]!r}. The page Datasets lists those that there are.")
    if len(known) > 1:
        ids = ", ".join(row.public_id for row in known[:5])
        raise InputError(f"Several datasets are called {name[:80]!r}: name one by its id ({ids}).")
    return known[0]


def require_empty(folder: Path) -> None:
    """Make the folder. Raises InputError: something is in it, or it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: no folder can be made there ({error.strerror}).") from error
    if taken:
        raise InputError(f"{folder}: something is in it; name a folder that is new or empty.")


def clear(folder: Path) -> None:
    """Remove an earlier export from the folder that is named by it: the same files will stand there again."""
    if folder.is_dir() and (folder / MANIFEST).exists():
        for name in (*(f"{side}.{written}" for side in SIDES for written in FORMATS), CARD, NEAR_FILE, MANIFEST):
            (folder / name).unlink(missing_ok=True)
        for package in folder.glob("envarium_*.whl"):
            package.unlink()


def peak_rss_mib() -> float:
    """Most memory that this process has held; the kernel counts in KiB, on macOS in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most / (1 << 20 if sys.platform == "darwin" else 1 << 10), 1)
