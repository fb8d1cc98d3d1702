"""Whether training data says what was recorded: cases that others' systems got wrong in silence.

    python -m tests.benchmarks.data_truth [--json] [--only json,rows,ids,tags,openai,files,tokens]

Each case has a right value, or must be refused: numbers, keys and characters that JSON cannot say, at every door; one
bad row beside good ones; results under repeated, absent and swapped ids; tags in arguments; OpenAI's training files;
malformed lines of uploads, imports and replies; control tokens in content. `cases` counts them, `wrong` those that came
out otherwise (0 is right), `by_kind` has both, `failed` what was said of each. The last line of output is one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from tests.benchmarks.data_truth import file_cases, json_cases, result_cases, token_cases

KINDS = ("json", "rows", "ids", "tags", "openai", "files", "tokens")
Case = tuple[str, str, Callable[[], None]]


def all_cases(kinds: Iterable[str]) -> Iterator[Case]:
    wanted = set(kinds)
    sources = [json_cases.cases, result_cases.cases, file_cases.cases]
    for source in [*sources, token_cases.cases] if "tokens" in wanted else sources:
        yield from (case for case in source() if case[0] in wanted)


def measure(kinds: Iterable[str]) -> dict[str, object]:
    begun, counts, failed = time.monotonic(), Counter[str](), dict[str, str]()
    wrong: Counter[str] = Counter()
    for kind, name, check in all_cases(kinds):
        counts[kind] += 1
        try:
            check()
        except Exception as error:
            wrong[kind] += 1
            failed[f"{kind}: {name}"] = f"{type(error).__name__}: {error}"[:300]
    by_kind = {kind: {"cases": number, "wrong": wrong[kind]} for kind, number in counts.items()}
    return {
        "cases": counts.total(), "wrong": wrong.total(), "by_kind": by_kind, "failed": failed,
        "seconds": round(time.monotonic() - begun, 2),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print nothing but the result")
    parser.add_argument("--only", default=",".join(KINDS), help="kinds, with commas between them")
    asked = parser.parse_args()
    found = measure(asked.only.split(","))
    if not asked.json:
        for kind, part in found["by_kind"].items():  # type: ignore[attr-defined]
            print(f"{kind}: {part['wrong']} of {part['cases']} wrong")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
