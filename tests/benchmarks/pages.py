"""What every list, page and partial costs on a large database, beside the same on a small one.

    python -m tests.benchmarks.pages --json [--rounds 20] [--small] [--only TEXT]

Makes databases of its own on the server of DATABASE_URL (dropped at the end): 2,000 environments, 20,000 tools,
10,000 tasks, 100,000 trajectories, 10,000 labels; and a small one of the same shape. Requests go through the whole
of Django in this process; the first of each address is not counted. `ratio` is large to small. The last line is one
JSON object: by page `p50_ms`, `p95_ms`, `queries`, and the worst over all; `text_search_p95_ms` is the worst of the
searches of all texts of trajectories, in the list and by Ctrl+K; `treemap_ms` is what Chromium takes for
the treemap of 2,120 themes (`tests.benchmarks.page_parts.treemap`).
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import time
from typing import Any

from tests.benchmarks.databases import own_database
from tests.benchmarks.page_parts import treemap

WANTED_MS = 200
TEXT_SEARCHES = ("trajectories with ", "search for ")
"""How the names of the addresses begin that search all texts of trajectories."""
TEXT_SEARCH_WANTED_MS = 300
TREEMAP_ROUNDS = 5


def rank(values: list[float], share: float) -> float:
    return round(sorted(values)[min(int(len(values) * share), len(values) - 1)], 1)


def measure(rounds: int, small: bool, only: str) -> dict[str, dict[str, float]]:
    """Seed the database of DATABASE_URL and ask for every address. Runs in a process of its own."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client

    from tests.fixtures import addresses, scale
    from webapp.accounts.models import User

    call_command("migrate", verbosity=0)
    user = User.objects.create_user("bench", password=secrets.token_hex(12), role="admin")
    scale.seed(scale.SMALL if small else scale.Size(), user)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM")
        cursor.execute("CHECKPOINT")  # or it comes amid the measurement: nobody writes gigabytes beside readers
    import webapp.asgi  # noqa: F401 - as the server's start: it freezes what lives on, the seed's remains with it

    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(user)
    counted = [0]

    def count(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        counted[0] += 1
        return execute(sql, parameters, many, context)

    found: dict[str, dict[str, float]] = {}
    for name, url in addresses.lists().items():
        if only not in name:
            continue
        times = []
        for _ in range(rounds + 1):
            counted[0] = 0
            start = time.perf_counter()
            with connection.execute_wrapper(count):
                answer = client.get(url)
                content = b"".join(answer.streaming_content) if answer.streaming else answer.content
            times.append((time.perf_counter() - start) * 1000)
            if answer.status_code != 200:
                raise SystemExit(f"{url} answered {answer.status_code}: {content[:300]!r}")
        times = times[1:]
        found[name] = {"p50_ms": rank(times, 0.5), "p95_ms": rank(times, 0.95), "queries": counted[0]}
    return found


def child(rounds: int, small: bool, only: str) -> dict[str, dict[str, float]]:
    with own_database("bench_pages") as url:
        environment = {**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "webapp.settings"}
        command = [sys.executable, "-m", "tests.benchmarks.pages", "--measure", "--rounds", str(rounds), "--only", only]
        done = subprocess.run(
            [*command, *(["--small"] if small else [])], env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
    result: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--small", action="store_true", help="only the small database")
    parser.add_argument("--only", default="", help="only addresses whose name has this in it")
    parser.add_argument("--measure", action="store_true", help="measure the database of DATABASE_URL")
    options = parser.parse_args()
    if options.measure:
        found = measure(options.rounds, options.small, options.only)
        print(json.dumps(found))
        return found
    small = child(options.rounds, True, options.only)
    pages = small if options.small else child(options.rounds, False, options.only)
    for name, page in pages.items():
        page["ratio"] = round(page["p50_ms"] / max(small[name]["p50_ms"], 0.1), 2)
    worst = max(pages, key=lambda name: pages[name]["p95_ms"])
    searches = [page["p95_ms"] for name, page in pages.items() if name.startswith(TEXT_SEARCHES)]
    result: dict[str, Any] = {
        "pages": pages,
        "worst": worst,
        "p50_ms": rank([page["p50_ms"] for page in pages.values()], 0.5),
        "p95_ms": pages[worst]["p95_ms"],
        "queries": max(page["queries"] for page in pages.values()),
        "wanted_ms": WANTED_MS,
        "text_search_p95_ms": max(searches, default=None),
        "text_search_wanted_ms": TEXT_SEARCH_WANTED_MS,
        "treemap_ms": treemap.run_child(TREEMAP_ROUNDS)["treemap_ms"],
        "load": [round(value, 1) for value in os.getloadavg()],
    }
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))
    return result


if __name__ == "__main__":
    main()
