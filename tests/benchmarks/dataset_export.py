"""Export of a frozen dataset in every form and format: time, rows a second, most memory, and whether bytes repeat.

    python -m tests.benchmarks.dataset_export --json [--rows 100000]

Makes a database of its own on the server of DATABASE_URL (dropped at the end), a dataset of N rows and one of N/10; and
for ATIF two of trajectories that are stored there (`stored`), whose state changes are read beside the rows.
Each export is a process of its own, called as people call it (`manage.py export_dataset`), so that its most memory is
its own: `growth_mib` is what N rows need beyond N/10. Each is made twice; `hashes_equal` compares all their files. The
last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.databases import own_database

ROOT = Path(__file__).resolve().parents[2]
KINDS = [("file", form) for form in ("trl", "sharegpt", "envscaler", "atif")] + [("stored", "atif")]
PAIRS = [(kind, form, written) for kind, form in KINDS for written in ("jsonl", "parquet")]


def seeded(rows: int) -> dict[str, tuple[str, str]]:
    """Ids of the small and the large dataset: of a file, and of trajectories that are stored here."""
    from django.core.management import call_command

    from tests.fixtures import dataset_seed

    call_command("migrate", verbosity=0)
    few = max(1, rows // 10)
    made = {
        "file": (dataset_seed.trajectory_rows(few), dataset_seed.trajectory_rows(rows)),
        "stored": (dataset_seed.stored_rows(few), dataset_seed.stored_rows(rows, first=few)),
    }
    found = {}
    for kind, source in (("file", "file"), ("stored", "selection")):
        small, large = (dataset_seed.frozen(some, kind, source=source) for some in made[kind])
        found[kind] = (small.public_id, large.public_id)
    return found


def exported(dataset: str, form: str, written: str) -> dict[str, Any]:
    """What the command says of one export, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="bench-export-") as folder:
        command = [sys.executable, "manage.py", "export_dataset", dataset, "--json", "--form", form]
        command += ["--format", written, "--out", f"{folder}/out"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{form} as {written}: {done.stderr[-2_000:]}")
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def measured(datasets: dict[str, tuple[str, str]], only: str = "") -> dict[str, dict[str, Any]]:
    """By export its figures; `only` those whose name begins so."""
    found = {}
    for kind, form, written in PAIRS:
        name = f"{form} {written}{' stored' if kind == 'stored' else ''}"
        if not name.startswith(only):
            continue
        small, large = datasets[kind]
        few, many, again = (exported(dataset, form, written) for dataset in (small, large, large))
        found[name] = {
            "seconds": many["seconds"],
            "rows_per_s": round(many["rows"] / max(many["seconds"], 0.001)),
            "peak_rss_mib": many["peak_rss_mib"],
            "growth_mib": round(many["peak_rss_mib"] - few["peak_rss_mib"], 1),
            "mib": round(sum(file["bytes"] for file in many["files"]) / (1 << 20), 1),
            "sha256": many["sha256"],
            "hashes_equal": (many["sha256"], many["files"]) == (again["sha256"], again["files"]),
        }
    return found


def main() -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the JSON object")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--only", default="", help="exports whose name begins so, as `atif jsonl`")
    told = parser.parse_args()
    with own_database("bench_export") as database, tempfile.TemporaryDirectory(prefix="bench-export-") as home:
        os.environ |= {
            "DATABASE_URL": database,
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
            "ENVARIUM_SECRET_KEY": secrets.token_hex(32),
            "ENVARIUM_HOME": home,
        }
        import django

        django.setup()
        datasets = seeded(told.rows)
        found = measured(datasets, told.only)
        from django.db import connection

        connection.close()
    worst = max(found.values(), key=lambda one: one["seconds"])
    result = {
        "rows": told.rows,
        "exports": found,
        "most_seconds": worst["seconds"],
        "most_growth_mib": max(one["growth_mib"] for one in found.values()),
        "hashes_equal": all(one["hashes_equal"] for one in found.values()),
    }
    if not told.json:
        for name, one in found.items():
            print(f"{name:20} {one['seconds']:7.1f} s {one['rows_per_s']:9,} rows/s {one['peak_rss_mib']:7.1f} MiB")
    print(json.dumps(result))
    return result


if __name__ == "__main__":
    main()
