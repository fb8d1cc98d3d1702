"""`python -m training.demo FOLDER [--seed N] [--threads N]`: SFT, then RL, and held-out success before and after.

`--prepare` only writes the model, the datasets and the two jobs, for workers to carry out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from training.demo.prepare import prepare_demo
from training.job import RESULT, Exit
from training.launch import main as launch


def run_demo(folder: Path, seed: int, threads: int) -> dict[str, Any]:
    """Prepare and run both jobs; return the seed, held-out success `before`, `after_sft`, `after_rl` with the likeliest
    tokens and `sampled`, and seconds.
    """
    started = time.perf_counter()
    prepare_demo(folder, seed, threads)
    scores = []
    for name in ("sft", "rl"):
        status = launch([str(folder / name)])
        if status != Exit.DONE:
            raise SystemExit(status)
        scores.append(json.loads((folder / name / RESULT).read_text(encoding="utf-8"))["evaluations"])
        before, after = scores[-1][0], scores[-1][-1]
        summary = f"{name}: held-out success {before['success']:.2f} before, {after['success']:.2f} after"
        summary += f" (sampled: {before['sampled']:.2f}, {after['sampled']:.2f})"
        print(summary, f"({time.perf_counter() - started:.0f} s)", file=sys.stderr, flush=True)
    return {
        "seed": seed,
        "before": scores[0][0]["success"],
        "after_sft": scores[0][-1]["success"],
        "after_rl": scores[1][-1]["success"],
        "sampled": {
            "before": scores[0][0]["sampled"],
            "after_sft": scores[0][-1]["sampled"],
            "after_rl": scores[1][-1]["sampled"],
        },
        "environments": {"after_sft": scores[0][-1]["environments"], "after_rl": scores[1][-1]["environments"]},
        "seconds": time.perf_counter() - started,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m training.demo", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prepare", action="store_true")
    options = parser.parse_args()
    if options.prepare:
        prepare_demo(options.folder, options.seed, options.threads)
    else:
        print(json.dumps(run_demo(options.folder, options.seed, options.threads)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
