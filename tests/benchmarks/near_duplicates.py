"""The search for near-duplicates between a dataset's sides: how many planted ones it finds, its time and its memory.

    python -m tests.benchmarks.near_duplicates --json [--rows 50000] [--planted 100]

Four in five rows are to learn from. Of the held-out ones `--planted` are a row to learn from with one word changed.
`free` rows have nothing in common but their vocabulary; `alike` ones share half of their words, as tasks do that one
prompt made. Each shape is compared in a process of its own, once with N rows and once with N/10: `growth_mib` is what
N rows need beyond N/10. `planted_found` is of all planted pairs of both shapes at N. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal, get_args

ROOT = Path(__file__).resolve().parents[2]
Shape = Literal["free", "alike"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
WORDS = 150
CALLS = 8
SEED = 5
SYLLABLES = ("ka", "lo", "mi", "ne", "pu", "ra", "si", "to", "ve", "zu", "bre", "dol", "fin", "gar", "hem")


def vocabulary() -> list[str]:
    return [a + b + c for a in SYLLABLES for b in SYLLABLES for c in SYLLABLES[:9]]


def row(number: int, words: list[str], shape: Shape) -> tuple[list[str], str]:
    """An instruction of an ordinary length, as words, and calls; made anew each time, so that none is held."""
    luck = random.Random(number)
    own = luck.choices(words, k=WORDS)
    if shape == "alike":
        own[: WORDS // 2] = words[: WORDS // 2]
    numbers = range(CALLS) if shape == "alike" else luck.choices(range(10_000), k=CALLS)
    return own, "\n".join(f'open_box {{"count": {count}, "owner": "owner {count}"}}' for count in numbers)


def compared(rows: int, planted: int, shape: Shape) -> dict[str, Any]:
    """Compare two made-up sides in this process."""
    from webapp.datasets.evidence.near_duplicates import SidesCompared
    from webapp.datasets.management.commands.export_dataset import peak_rss_mib

    luck, words, sides = random.Random(SEED), vocabulary(), SidesCompared()
    held = rows // 5
    learnt = rows - held
    for number in range(learnt):
        spoken, made = row(number, words, shape)
        sides.sides["train"].add(f"learnt-{number}", " ".join(spoken), made)
    origins = dict(enumerate(luck.sample(range(learnt), min(planted, held))))
    for number in range(held):
        spoken, made = row(origins.get(number, learnt + number), words, shape)
        if number in origins:
            spoken[luck.randrange(WORDS // 2, WORDS)] = "otherwise"
        sides.sides["test"].add(f"held-{number}", " ".join(spoken), made)
    with tempfile.TemporaryDirectory(prefix="bench-near-") as folder:
        began = time.perf_counter()
        report = sides.write(Path(folder), lambda done, total: None)
        seconds = time.perf_counter() - began
        listed = json.loads((Path(folder) / "near_duplicates.json").read_text())
    pairs = {(pair["held_out"]["id"], pair["learnt"]["id"]) for pair in listed}
    wanted = {(f"held-{number}", f"learnt-{origin}") for number, origin in origins.items()}
    return {
        "rows": rows,
        "seconds": round(seconds, 2),
        "planted": len(wanted),
        "found": len(wanted & pairs),
        "others_listed": len(pairs - wanted),
        "rows_told": report.rows,
        "peak_rss_mib": peak_rss_mib(),
    }


def apart(rows: int, planted: int, shape: Shape) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.near_duplicates", "--shape", shape]
    command += ["--rows", str(rows), "--planted", str(planted)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{shape}, {rows} rows: {done.stderr[-2_000:]}")
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return told


def main() -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the JSON object")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--planted", type=int, default=100)
    parser.add_argument("--shape", choices=SHAPES, help="only this one, in this process")
    told = parser.parse_args()
    if told.shape is not None:
        import django

        os.environ |= {"DJANGO_SETTINGS_MODULE": "webapp.settings"}
        django.setup()
        result = compared(told.rows, told.planted, told.shape)
        print(json.dumps(result))
        return result
    shapes = {}
    for shape in SHAPES:
        few, many = (apart(rows, told.planted, shape) for rows in (max(10, told.rows // 10), told.rows))
        shapes[shape] = many | {"growth_mib": round(many["peak_rss_mib"] - few["peak_rss_mib"], 1)}
        if not told.json:
            print(f"{shape:6} {many['seconds']:8.1f} s  {many['found']} of {many['planted']} found")
    result = {
        "rows": told.rows,
        "shapes": shapes,
        "most_seconds": max(shape["seconds"] for shape in shapes.values()),
        "most_growth_mib": max(shape["growth_mib"] for shape in shapes.values()),
        "planted": sum(shape["planted"] for shape in shapes.values()),
        "planted_found": sum(shape["found"] for shape in shapes.values()),
        "load": [round(value, 1) for value in os.getloadavg()],
    }
    print(json.dumps(result))
    return result


if __name__ == "__main__":
    main()
