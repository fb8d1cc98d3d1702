"""How long Chromium takes for the treemap of 2,120 themes, from the page's last byte to the first frame that shows it.

    python -m tests.benchmarks.page_parts.treemap --json [--rounds 5] [--servers FILE]

Makes a database of its own on the server of DATABASE_URL and drops it at the end. Themes are synthetic, in the shape
of the published file of MCP servers, or those of FILE. Django answers in this process. The last line is one JSON
object: `treemap_ms` is the median, `treemap_worst_ms` the worst round, `elements` the number of elements of the page.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks.databases import own_database

THEMES = 2_120
WANTED_MS = 1_000
WIDTH, HEIGHT = 1440, 900
DRAWN = "#treemap .slice, #treemap .tile"
FRAME = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
  const [load] = performance.getEntriesByType('navigation');
  done({ ms: performance.now() - load.responseEnd, elements: document.querySelectorAll('*').length });
})))"""


def synthetic_servers() -> list[dict[str, Any]]:
    """Servers with labels as unevenly used as those of the published file, and a custom label for every third."""
    from webapp.taxonomy.labels import FIRST_LEVEL

    chance = random.Random(7)
    weights = [1 / rank for rank in range(1, len(FIRST_LEVEL) + 1)]
    servers = []
    for number in range(THEMES):
        primary, second = chance.choices(FIRST_LEVEL, weights, k=2)
        servers.append(
            {
                "server_id": number,
                "name": f"Server {number}",
                "overview": f"Serves {primary} for group {number % 97}.",
                "primary_label": primary,
                "secondary_labels": [second],
                "custom_label": f"Field {number % 211}" if number % 3 == 0 else None,
                "tools": [{"name": f"call_{number % 50}", "description": "", "input_schema": {}}],
            }
        )
    return servers


def measure(rounds: int, servers: Path | None) -> dict[str, float]:
    """Seed the database of DATABASE_URL and draw the page. Runs in a process of its own."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.test import Client

    from synthesis.formats.files import parse_entries
    from synthesis.formats.mcp import read_servers
    from tests.fixtures.chromium import running_chromium
    from webapp.accounts.models import User
    from webapp.taxonomy.importer import import_servers

    call_command("migrate", verbosity=0)
    user = User.objects.create_user("bench", password=secrets.token_hex(12), role="admin")
    lines = "\n".join(json.dumps(server) for server in synthetic_servers())
    import_servers(read_servers(servers) if servers else parse_entries(lines.encode(), "servers.jsonl"))
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(user)

    def answer(route: Any) -> None:
        path = route.request.url.removeprefix("http://127.0.0.1")
        if "/events" in path:
            route.abort()
            return
        found = client.get(path)
        content = b"".join(found.streaming_content) if found.streaming else found.content
        route.fulfill(status=found.status_code, headers=dict(found.items()), body=content)

    with running_chromium() as browser:
        context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
        context.route("**/*", answer)
        page = context.new_page()
        told = []
        for _ in range(rounds + 1):
            page.goto("http://127.0.0.1/taxonomy/map/?size=themes", wait_until="commit")
            page.wait_for_selector(DRAWN, timeout=60_000, state="attached")
            told.append(page.evaluate(FRAME))
            page.goto("about:blank")
        context.close()
    times = [one["ms"] for one in told[1:]]
    return {
        "treemap_ms": round(statistics.median(times)),
        "treemap_worst_ms": round(max(times)),
        "elements": told[-1]["elements"],
    }


def run_child(rounds: int, servers: Path | None = None) -> dict[str, float]:
    """Measure on a database of its own, in a process of its own."""
    with own_database("bench_treemap") as url:
        environment = {**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "webapp.settings"}
        command = [sys.executable, "-m", "tests.benchmarks.page_parts.treemap", "--measure", "--rounds", str(rounds)]
        command += ["--servers", str(servers)] if servers else []
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--servers", type=Path, help="a file of MCP servers instead of synthetic ones")
    parser.add_argument("--measure", action="store_true", help="measure the database of DATABASE_URL")
    options = parser.parse_args()
    if options.measure:
        found: dict[str, Any] = measure(options.rounds, options.servers)
        print(json.dumps(found))
        return found
    result = {**run_child(options.rounds, options.servers), "wanted_ms": WANTED_MS}
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))
    return result


if __name__ == "__main__":
    main()
