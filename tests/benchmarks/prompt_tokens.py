"""Tokens that a batch sends, by role: the recorded requests of a real batch beside the same work asked today.

    python -m tests.benchmarks.prompt_tokens --json
    python -m tests.benchmarks.prompt_tokens --data FOLDER/recorded_batch_kiln

Each recorded request is taken apart into its material (environment, program, tool, state, task, ...), and the question
of its stage is written anew from that by today's code; what is no longer asked counts nothing. Both sides are counted
by one function, with the schemas of tools. A turn of a conversation keeps the recorded words that came before it.
The data is looked for in `recorded_batch_kiln` below the folder that ENVARIUM_TEST_DATA names.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.benchmarks.prompt_parts.rewriting import Recorded, rewritten

DATA = "recorded_batch_kiln"
_PIECES = re.compile(r"[^\W\d_]+|\d{1,3}|[^\w\s]+|_+")
WORD_CHARS, SIGN_CHARS = 6, 2


def count_tokens(text: str) -> int:
    """Return about as many tokens as a byte-pair encoding makes: words in pieces, digits by three, signs by two."""
    total = 0
    for piece in _PIECES.findall(text):
        size = WORD_CHARS if piece[0].isalpha() else 3 if piece[0].isdigit() else SIGN_CHARS
        total += math.ceil(len(piece) / size)
    return total


def request_text(request: dict[str, Any]) -> str:
    """Return all that a request makes a model read."""
    parts = [json.dumps(request["tools"], ensure_ascii=False)] if request.get("tools") else []
    for message in request["messages"]:
        parts.append(message.get("content") or "")
        if message.get("tool_calls"):
            parts.append(json.dumps([call["function"] for call in message["tool_calls"]], ensure_ascii=False))
    return "\n".join(parts)


def read_calls(folder: Path, most: int) -> list[Recorded]:
    """Return the recorded requests in their order, each with the role and stage that asked it."""
    calls = []
    with gzip.open(folder / "calls.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            calls.append(Recorded.of(json.loads(line)["request"]))
            if len(calls) == most:
                break
    return calls


def measure(calls: list[Recorded]) -> dict[str, Any]:
    """Count both sides, by role and by stage."""
    recorded: Counter[tuple[str, str]] = Counter()
    now: Counter[tuple[str, str]] = Counter()
    numbers: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for call, request in zip(calls, rewritten(calls), strict=True):
        where = (call.role, call.stage)
        recorded[where] += count_tokens(request_text(call.request))
        numbers[where][0] += 1
        if request is not None:
            now[where] += count_tokens(request_text(request))
            numbers[where][1] += 1
    roles = {}
    for role in sorted({role for role, _ in recorded}):
        places = [where for where in recorded if where[0] == role]
        roles[role] = _figures(places, recorded, now, numbers)
        roles[role]["stages"] = {where[1]: _figures([where], recorded, now, numbers) for where in places}
    whole = _figures(list(recorded), recorded, now, numbers)
    return {**whole, "roles": roles}


def _figures(
    places: list[tuple[str, str]],
    recorded: Counter[tuple[str, str]],
    now: Counter[tuple[str, str]],
    numbers: dict[tuple[str, str], list[int]],
) -> dict[str, Any]:
    before, after = sum(recorded[where] for where in places), sum(now[where] for where in places)
    return {
        "recorded_tokens": before,
        "recorded_calls": sum(numbers[where][0] for where in places),
        "tokens": after,
        "calls": sum(numbers[where][1] for where in places),
        "ratio": round(after / before, 3) if before else 0.0,
    }


def data_folder(given: str) -> Path | None:
    """Return the folder of the recorded batch, None if there is none."""
    named = given or os.environ.get("ENVARIUM_TEST_DATA", "").strip()
    places = [Path(named), Path(named) / DATA] if named else []
    return next((place for place in places if (place / "calls.jsonl.gz").is_file()), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="", help="the folder of the recorded batch")
    parser.add_argument("--calls", type=int, default=0, help="so many of the recorded calls; all of them by default")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    chosen = parser.parse_args()
    folder = data_folder(chosen.data)
    if folder is None:
        reason = f"No recorded batch: ENVARIUM_TEST_DATA names no folder with {DATA}. Name it with --data."
        print(json.dumps({"skipped": reason}) if chosen.json else reason)
        sys.exit(0)
    found = measure(read_calls(folder, chosen.calls))
    if chosen.json:
        print(json.dumps(found))
        return
    for role, figures in [*found["roles"].items(), ("all", found)]:
        print(_line(role, figures))
        for stage, part in figures.get("stages", {}).items():
            print(_line(f"  {stage}", part))


def _line(name: str, figures: dict[str, Any]) -> str:
    before, after = figures["recorded_tokens"], figures["tokens"]
    calls = f"{figures['recorded_calls']} -> {figures['calls']} calls"
    return f"{name:<20} {before:>9,} -> {after:>9,} tokens  {calls:<18} {figures['ratio']:.0%}"


if __name__ == "__main__":
    main()
