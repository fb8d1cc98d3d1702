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
from webapp.accounts.services import write_audit_entry
from webapp.common.commands import dump_json, make_progress_writer, report_in_one_line
from webapp.datasets.export.card import CARD
from webapp.datasets.export.files import write_files
from webapp.datasets.export.record_shapes import FORMATS, FORMS, require_fit, require_format
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
        began, tell = time.monotonic(), make_progress_writer(self.stderr.write)
        with report_in_one_line():
            dataset = get_named_dataset(options["name"])
            written_as = require_format(options["format"], require_fit(options["form"], dataset.kind))
            if folder is None:
                folder = Path(f"{dataset.public_id}-{options['form']}-{written_as}")
                clear_earlier_export(folder)
            require_empty_folder(folder)
            total = dataset.train_rows + dataset.test_rows
            write_audit_entry(None, "dataset.export", dataset, form=options["form"], format=written_as)
            written_export = write_files(
                dataset, options["form"], written_as, folder, lambda rows: tell(rows, total, "rows")
            )
        result = {
            "dataset": dataset.public_id,
            "form": options["form"],
            "format": written_as,
            "rows": written_export.rows,
            "left_out": written_export.left_out,
            "seconds": round(time.monotonic() - began, 3),
            "sha256": written_export.sha256,
            "peak_rss_mib": peak_rss_mib(),
            "files": [file.model_dump() for file in written_export.files],
        }
        self.stderr.write(f"{written_export.rows} rows of {dataset.public_id} in {folder}")
        if written_export.left_out:
            warning = f"{written_export.left_out} rows do not fit this form and were left out; manifest.json names them"
            self.stderr.write(warning)
        self.stdout.write(dump_json(result) if options["json"] else written_export.sha256)


def get_named_dataset(name: str) -> Dataset:
    """Return the frozen dataset of this id or name. Raises InputError: there is none, or several have the name."""
    ready = Dataset.objects.filter(state=DatasetState.READY)
    matches = list(ready.filter(public_id=name)) or list(ready.filter(name=name, archived=False).order_by("-pk")[:6])
    if not matches:
        raise InputError(f"There is no frozen dataset {name[:80]!r}. The page Datasets lists those that there are.")
    if len(matches) > 1:
        ids = ", ".join(row.public_id for row in matches[:5])
        raise InputError(f"Several datasets are called {name[:80]!r}: name one by its id ({ids}).")
    return matches[0]


def require_empty_folder(folder: Path) -> None:
    """Make the folder. Raises InputError: it is not empty, or cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        has_content = any(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: no folder can be made there ({error.strerror}).") from error
    if has_content:
        raise InputError(f"{folder}: something is in it; name a folder that is new or empty.")


def clear_earlier_export(folder: Path) -> None:
    """Remove an earlier export from the default folder: the same files are written there again."""
    if folder.is_dir() and (folder / MANIFEST).exists():
        for name in (*(f"{side}.{written}" for side in SIDES for written in FORMATS), CARD, NEAR_FILE, MANIFEST):
            (folder / name).unlink(missing_ok=True)
        for package in folder.glob("envarium_*.whl"):
            package.unlink()


def peak_rss_mib() -> float:
    """Return the peak memory of this process in MiB; the kernel counts in KiB, on macOS in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most / (1 << 20 if sys.platform == "darwin" else 1 << 10), 1)
