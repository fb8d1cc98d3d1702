"""Themes that say the same in other words: found by vectors and a judge, and by vectors alone, on labelled pairs.

    python -m tests.benchmarks.themes [--json] [--endpoint NAME --model MODEL] [FILE]

FILE is JSON Lines of `{first: [name, description], second: [name, description], same}`; left out, the pairs that are in
the repository. All texts of the file are one set, as a batch's are: a pair counts as found where both stand in one
group. It goes the way of batches: `lists` of themes in which the judge looks for some that may be the same, the nearest
by local vectors, then the judge's decision on each pair (`asked`). The scripted judge knows the same words in both.
`precision` and `recall` are those of the new way (candidates by vectors, each decided by the judge, who is the
offline provider unless an endpoint is named), `vectors_alone` those of the old one at its usual threshold, and
`best_threshold` those of the threshold at which vectors alone do best. `candidates` is the share of the same pairs of
which the judge heard, perhaps through a third theme; `wrong` lists what was decided otherwise than it is labelled.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site
from synthesis.llm.store import MemoryStore
from synthesis.scripted import ScriptedModel
from synthesis.stages import StageSettings
from synthesis.themes.dedupe import FoldedGroup, build_theme_text, group_pairs
from synthesis.themes.judged_groups import JudgedGroups
from synthesis.themes.judged_themes import judge_themes
from synthesis.themes.theme_lists import build_lists
from synthesis.themes.vectors import local

PAIRS = Path(__file__).parents[1] / "themes" / "pairs.jsonl"
Labelled = tuple[int, int, bool]


def read(path: Path) -> tuple[list[str], list[Labelled]]:
    """(texts, pairs of them with their label)."""
    texts: dict[str, int] = {}
    pairs = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        ends = [texts.setdefault(build_theme_text(*row[end]), len(texts)) for end in ("first", "second")]
        pairs.append((min(ends), max(ends), bool(row["same"])))
    return list(texts), pairs


def figures(groups: Sequence[FoldedGroup], pairs: Sequence[Labelled]) -> dict[str, Any]:
    """Precision and recall of these groups on the labelled pairs."""
    of = {index: group.kept for group in groups for index in (group.kept, *(m.index for m in group.members))}
    said = [(of[early] == of[late], same) for early, late, same in pairs]
    hits, found, wanted = sum(a and b for a, b in said), sum(a for a, _ in said), sum(b for _, b in said)
    return {
        "precision": round(hits / found, 4) if found else None,
        "recall": round(hits / wanted, 4) if wanted else None,
        "found": found,
    }


async def judged(texts: Sequence[str], model: Any) -> JudgedGroups:
    asker = Asker({"judge": model}, MemoryStore())

    def judge(index: int, stage: str) -> tuple[Asker, Site]:
        return asker, Site(role="judge", stage=stage, item=f"theme-{index}")

    return await judge_themes(texts, judge)


async def by_judge(texts: Sequence[str], endpoint: str, model: str) -> JudgedGroups:
    if not endpoint:
        return await judged(texts, ScriptedModel())
    from asgiref.sync import sync_to_async

    from webapp.environments.checkers.services import find_checker_model

    _, opened = await sync_to_async(find_checker_model)(endpoint, model)
    async with opened as chat:
        return await judged(texts, chat)


def measured(path: Path, endpoint: str = "", model: str = "") -> dict[str, Any]:
    texts, pairs = read(path)
    began = time.perf_counter()
    found = asyncio.run(by_judge(texts, endpoint, model))
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    vectors = local(texts)
    near = (vectors @ vectors.T).toarray()
    likeness = [(i, j, float(near[i, j])) for j in range(len(texts)) for i in range(j)]
    usual = StageSettings().duplicate_at
    alone = figures(group_pairs(len(texts), likeness, usual), pairs)
    old_seconds = time.perf_counter() - began
    by_threshold = {at / 100: figures(group_pairs(len(texts), likeness, at / 100), pairs) for at in range(15, 90, 5)}
    best = max(by_threshold, key=lambda at: _f1(by_threshold[at]))
    new = figures(found.groups, pairs)
    of = {index: group.kept for group in found.groups for index in (group.kept, *(m.index for m in group.members))}
    heard = {*found.same, *found.different, *found.undecided}
    same = [(early, late) for early, late, label in pairs if label]
    return {
        "pairs": len(pairs),
        "themes": len(texts),
        "precision": new["precision"],
        "recall": new["recall"],
        "seconds": round(seconds, 3),
        "judge": f"{endpoint}/{model}" if endpoint else "scripted",
        "lists": len(build_lists(len(texts))),
        "asked": found.asked,
        "undecided": len(found.undecided),
        "candidates": round(sum(of[a] == of[b] or (a, b) in heard for a, b in same) / max(1, len(same)), 4),
        "vectors_alone": alone | {"threshold": usual, "seconds": round(old_seconds, 3)},
        "best_threshold": by_threshold[best] | {"threshold": best},
        "wrong": [
            [texts[early].partition("\n")[0], texts[late].partition("\n")[0], label]
            for early, late, label in pairs
            if (of[early] == of[late]) != label
        ],
    }


def _f1(one: dict[str, Any]) -> float:
    precision, recall = one["precision"] or 0.0, one["recall"] or 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=PAIRS)
    parser.add_argument("--endpoint", default="", help="a registered endpoint, whose model is the judge")
    parser.add_argument("--model", default="")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.endpoint:
        import django

        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
        django.setup()
    found = measured(given.file, given.endpoint, given.model)
    if not given.json:
        for first, second, label in found["wrong"]:
            print(f"{first} / {second}: labelled {'the same' if label else 'different'}")
    print(json.dumps(found, ensure_ascii=False))


if __name__ == "__main__":
    main()
