"""What opening a replay and moving in it costs in Chromium: 1,000 steps over 2 MB beside 20 steps over little.

    python -m tests.benchmarks.replay --json [--moves 60] [--rounds 6] [--steps 1000]

Makes a database of its own on the server of DATABASE_URL (dropped at the end) and starts the site on it. Both
runs are measured in turns, because the machine's speed varies. A move is timed from the key to the painted
panels: half of them are steps (`j`, fetched ahead), half are jumps (`]`, `[`). The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.databases import own_database

OPEN_MS = """() => {
  const paints = performance.getEntriesByName("first-contentful-paint");
  const entry = performance.getEntriesByType("navigation")[0];
  return Math.max(entry.domContentLoadedEventEnd, paints.length ? paints[0].startTime : 0);
}"""
MOVE_MS = """async (key) => {
  const desk = document.getElementById("desk");
  let going = false;
  desk.addEventListener("replay:going", () => { going = true; }, { once: true });
  const start = performance.now();
  document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  if (!going) return null;
  await new Promise((done, fail) => {
    const look = () => { if (!desk.hasAttribute("aria-busy")) { seen.disconnect(); done(); } };
    const seen = new MutationObserver(look);
    seen.observe(desk, { attributes: true, attributeFilter: ["aria-busy"] });
    setTimeout(() => fail(new Error(`no answer to ${key} in 10 s`)), 10000);
    look();
  });
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  return performance.now() - start;
}"""
"""Null where the key leads nowhere: there is no further step of that kind."""


def seeded(password: str, steps: int, records: int) -> tuple[int, int, int]:
    """The keys of the large and the small run, and the bytes of the large one's first state."""
    from django.core.management import call_command

    from tests.fixtures import replay_seed
    from webapp.accounts.models import User

    call_command("migrate", verbosity=0)
    User.objects.create_user("bench", password=password, role="viewer")
    large = replay_seed.make(replay_seed.large(steps=steps, records=records))
    small = replay_seed.make(replay_seed.large("small", steps=20, records=20, checks=7))
    return large.pk, small.pk, large.revision.scenario.initial.size


def measured(
    site: str, password: str, large: int, small: int, steps: int, rounds: int, moves: int
) -> dict[str, dict[str, list[float]]]:
    from playwright.sync_api import sync_playwright

    from tests.fixtures.chromium import launched

    found: dict[str, dict[str, list[float]]] = {
        name: {"open": [], "step": [], "jump": []} for name in ("large", "small")
    }
    with sync_playwright() as play:
        browser = launched(play)
        page = browser.new_page(base_url=site, viewport={"width": 1440, "height": 900})
        page.goto("/account/login/")
        page.fill("[name=username]", "bench")
        page.fill("[name=password]", password)
        page.keyboard.press("Enter")
        page.wait_for_selector(".rail .brand")
        for turn in range(rounds):
            for name, pk in (("large", large), ("small", small)):
                page.goto(f"/trajectories/{pk}/?step={steps * (turn + 1) // (rounds + 2) if name == 'large' else 1}")
                if turn:  # the first one starts the process: templates, connections
                    found[name]["open"].append(page.evaluate(OPEN_MS))
                page.wait_for_timeout(600)
                for _ in range(max(1, moves // (2 * rounds))):
                    for kind, key in (("step", "j"), ("jump", "}")):
                        took = page.evaluate(MOVE_MS, key)
                        found[name][kind] += [] if took is None else [took]
                        page.wait_for_timeout(250)
        browser.close()
    return found


def rank(values: list[float], share: float) -> float:
    return round(sorted(values)[min(int(len(values) * share), len(values) - 1)], 1)


def summary(found: dict[str, list[float]]) -> dict[str, float]:
    moves = found["step"] + found["jump"]
    return {
        "open_ms": round(statistics.median(found["open"]), 1),
        "move_p50_ms": rank(moves, 0.5),
        "move_p95_ms": rank(moves, 0.95),
        "step_p50_ms": rank(found["step"], 0.5),
        "jump_p50_ms": rank(found["jump"], 0.5),
    }


def main() -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--moves", type=int, default=60, help="in each of the two runs")
    parser.add_argument("--rounds", type=int, default=6, help="how often each is opened; the first is not counted")
    parser.add_argument("--steps", type=int, default=1000, help="of the large run")
    parser.add_argument("--records", type=int, default=7200, help="in the large run's state")
    options = parser.parse_args()
    password = secrets.token_urlsafe(12)
    with own_database("bench_replay") as url, tempfile.TemporaryDirectory() as folder:
        os.environ.update(DATABASE_URL=url, DJANGO_SETTINGS_MODULE="webapp.settings", DJANGO_ALLOW_ASYNC_UNSAFE="1")
        import django

        django.setup()
        large, small, size = seeded(password, options.steps, options.records)
        from tests.fixtures.processes import site

        with site(Path(folder)) as address:
            found = measured(address, password, large, small, options.steps, options.rounds, options.moves)
        from django.db import connections

        connections.close_all()
    result = {**summary(found["large"]), "state_bytes": size, "steps": options.steps, "small": summary(found["small"])}
    result["load"] = [round(value, 1) for value in os.getloadavg()]
    result["open_ratio"] = round(result["open_ms"] / result["small"]["open_ms"], 2)
    result["move_ratio"] = round(result["move_p50_ms"] / result["small"]["move_p50_ms"], 2)
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))
    return result


if __name__ == "__main__":
    main()
