"""How soon SFT begins: samples tokenised as they are learnt against all of them before the first step.

    python -m tests.benchmarks.sft_start --rows 9000 --turns 16 [--words 60] [--eager 200] --json

Both go through one frozen dataset in one run, in this process: rows read, what is too long looked for, order drawn,
the first batch of `--batch` samples made. `lazy_s` ends there. `eager_s` is reading and ordering beside the
tokenising of `--eager` rows, evenly spread, times all rows over those. Each with the processor's own seconds
(`..._cpu_s`), which a busy machine does not lengthen. The last line of output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from training import sft
from training.config import Optimiser, Supervised
from training.dataset import Split, TrajectoryRow, freeze_dataset_folder, read_rows
from training.demo.model import build_tokenizer
from training.supervised.lazy_samples import Collator, LazySamples
from training.templates import prepare_template

TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Look up a word.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    },
}


def conversation(dice: random.Random, turns: int, words: int) -> list[dict[str, Any]]:
    """A task with `turns` turns of the agent, each with reasoning and a call or the answer, of about so many words."""

    def text() -> str:
        return " ".join(dice.choice(_WORDS) for _ in range(words))

    said: list[dict[str, Any]] = [
        {"role": "system", "content": text()},
        {"role": "user", "content": text()},
    ]
    for turn in range(turns - 1):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": "look_up", "arguments": {"word": text()}}}
        said.append({"role": "assistant", "content": "", "reasoning_content": text(), "tool_calls": [call]})
        said.append({"role": "tool", "tool_call_id": f"c{turn}", "name": "look_up", "content": text()})
    return [*said, {"role": "assistant", "content": text(), "reasoning_content": text()}]


_WORDS = [f"{a}{b}" for a in ("lamp", "city", "book", "day", "river", "stone") for b in ("", "s", "er", "ing", "ed")]


def rows(count: int, turns: int, words: int) -> Iterator[TrajectoryRow]:
    dice = random.Random(7)
    for number in range(count):
        told = {"id": f"r{number}", "environment": f"e{number % 140}", "task": f"t{number}", "tools": [TOOL]}
        yield TrajectoryRow.model_validate({**told, "messages": conversation(dice, turns, words)})


class Clock:
    """Seconds of wall and processor since it was made."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def told(self, name: str, factor: float = 1.0) -> dict[str, float]:
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        return {f"{name}_s": round(factor * wall, 2), f"{name}_cpu_s": round(factor * cpu, 2)}


def measured(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    cfg = Supervised(batch=given.batch, max_length=given.max_length, samples=given.samples, optimiser=Optimiser())
    dice = random.Random(8)
    tokenizer = build_tokenizer(
        {"messages": conversation(dice, given.turns, given.words), "tools": [TOOL]} for _ in "ab"
    )
    prepare_template(tokenizer)
    clock = Clock()
    here = [row for row in read_rows(folder, "train") if isinstance(row, TrajectoryRow)]
    read = clock.told("read")
    job: Any = SimpleNamespace(cfg=cfg, rows=here, tokenizer=tokenizer)
    counts = sft.count_samples(here, cfg)
    longest = sft.find_longest_sample(job, counts)
    order = sft.order_samples(here, counts, cfg)
    made = LazySamples(lambda n: sft.build_row_samples(tokenizer, n, here[n], cfg), cfg.max_length, 0, sft.IGNORED)
    batch = made.dataset(order)[: given.batch]
    Collator(0, sft.IGNORED)([dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)])
    lazy = clock.told("lazy")
    clock = Clock()
    some = here[:: max(1, len(here) // given.eager)]
    sft.build_samples(tokenizer, some, cfg)
    tokenised = clock.told("tokenise", len(here) / len(some))
    eager = {f"eager{end}": round(read[f"read{end}"] + tokenised[f"tokenise{end}"], 2) for end in ("_s", "_cpu_s")}
    told = {"rows": len(here), "samples": sum(counts), "longest": longest, "eager_rows": len(some)}
    return {**told, **read, **lazy, **eager, "eager_by_lazy": round(eager["eager_cpu_s"] / lazy["lazy_cpu_s"], 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=9_000)
    parser.add_argument("--turns", type=int, default=16)
    parser.add_argument("--words", type=int, default=60, help="words of a message")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--max-length", type=int, default=32_768)
    parser.add_argument("--samples", choices=["whole", "mask_history"], default="mask_history")
    parser.add_argument("--eager", type=int, default=200, help="rows that are tokenised beforehand, for comparison")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        split = Split(unit="task", test_share=0, seed=0)
        made = rows(given.rows, given.turns, given.words)
        freeze_dataset_folder(Path(folder) / "data", made, name="Made", kind="trajectories", split=split)
        found = measured(Path(folder) / "data", given)
    for name, value in found.items():
        print(f"{name:16} {value}")
    if given.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
