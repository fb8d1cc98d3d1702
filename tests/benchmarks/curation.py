"""How the site holds up while fifty people curate: pages, queues and search on a database of a busy team.

    python -m tests.benchmarks.curation --json [--minutes 5] [--closed-seconds 60] [--searches 200] [--seed 0]
        [--annotators 50] [--think 4] [--environments 2000] [--tasks 50000] [--trajectories 500000]

On a database and a server process of its own (dropped at the end) annotators work with pauses, each signed in on their
own: they pull items, keep drafts, decide, open tasks, lists, replays and Home, look at failing tools, open drafts of
tools and tasks, and search in the palette, as a browser does. `p95_ms` and `p50_ms` by page, the
parts that pages load by themselves and all POSTs too; `double_assignments`: items that more people held or decided at a
time than they have places, by what the database knows; `lost_decisions`: said to be taken and not there, or there and
never said to be; `counts_wrong`: queues whose count of decided items is not what their items say; `refused`: decisions
that were refused, by status.
Then a few people decide without pauses: `decisions_per_s`, `decision_to_next_ms` (from posting a decision to the next
item's page, whole). Then one person searches alone: `search_p95_ms`. The first requests are not counted.
The client shares the machine: `server_cpu` and `client_cpu` are shares of one core. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tests.benchmarks.ingest import site_settings

if TYPE_CHECKING:
    from tests.benchmarks.curation_parts.people import Person, Record
    from tests.benchmarks.curation_parts.seed import Size
    from webapp.review.models import ReviewQueue

WANTED_MS, WANTED_SEARCH_MS = 300, 150
DOUBLE = """
SELECT count(*) FROM review_queueitem AS item WHERE overlap < greatest(
  (SELECT count(*) FROM review_assignment AS a WHERE a.item_id = item.id AND a.state IN ('held', 'decided')),
  (SELECT count(*) FROM review_reviewdecision AS d JOIN review_assignment AS a ON a.id = d.assignment_id
   WHERE a.item_id = item.id AND d.undone_at IS NULL),
  (SELECT max((SELECT count(*) FROM review_assignment AS b WHERE b.item_id = item.id AND b.created_at <= a.created_at
     AND (b.state IN ('held', 'decided') OR b.ended_at > a.created_at)))
   FROM review_assignment AS a WHERE a.item_id = item.id))
OR overlap - free <> (
  SELECT count(*) FROM review_assignment AS a WHERE a.item_id = item.id AND a.state IN ('held', 'decided'))
"""
"""Items with more holders, now or at the beginning of any hold, or more standing decisions, than places; or whose
free places are not what holders leave."""
WRONG_COUNTS = """
SELECT count(*) FROM review_reviewqueue AS q WHERE closed_count <> (
  SELECT count(*) FROM review_queueitem AS item WHERE item.queue_id = q.id AND item.state = 'closed')
"""


def rank(values: list[float], share: float) -> float:
    return round(sorted(values)[min(int(len(values) * share), len(values) - 1)], 1) if values else 0.0


def people(number: int, queues: list[ReviewQueue]) -> list[Person]:
    """Annotators, each with a session as signing in leaves it."""
    from django.test import Client

    from tests.benchmarks.curation_parts.people import Person
    from webapp.accounts.models import User

    found = []
    for index in range(number):
        user = User.objects.create(username=f"annotator-{index}", role="annotator", password="!")
        client = Client()
        client.force_login(user)
        cookies = {name: morsel.value for name, morsel in client.cookies.items()}
        found.append(Person(user.pk, cookies, queues[index % len(queues)].pk))
    return found


def items_of(queue: ReviewQueue) -> list[int]:
    return list(queue.items.order_by("id").values_list("pk", flat=True))


def counted(sql: str) -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])


def lost(record: Record, keys: list[int]) -> int:
    """Decisions that were said to be taken and do not stand, and those that stand and nobody was told of."""
    from webapp.review.models import ReviewDecision

    columns = ("pk", "user_id", "assignment__item_id", "verdict", "assignment__state", "undone_at")
    rows = {row[0]: row[1:] for row in ReviewDecision.objects.filter(user__in=keys).values_list(*columns)}
    told = {one.pk: (one.user, one.item, one.verdict, "decided", None) for one in record.accepted}
    missing = sum(rows.get(pk) != row for pk, row in told.items()) + len(record.accepted) - len(told)
    open_ended = set(record.unanswered)
    return missing + sum(pk not in told and row[:2] not in open_ended for pk, row in rows.items())


class Processors:
    """What the server's and this process have used of one core since the last look."""

    def __init__(self) -> None:
        processes = psutil.Process().children(recursive=True)
        self.servers = [one for one in processes if "webapp.stack.web_processes" in one.cmdline()]
        self.look()

    def look(self) -> dict[str, float]:
        served = sum(sum(one.cpu_times()[:2]) for one in self.servers)
        now = time.monotonic(), served, time.process_time()
        before, self.before = getattr(self, "before", now), now
        passed, server, client = (new - old for new, old in zip(now, before, strict=True))
        return {"server_cpu": round(server / passed, 2), "client_cpu": round(client / passed, 2)} if passed else {}


class Load:
    """The annotators at their browsers; each phase gives its figures."""

    def __init__(self, site: str, persons: list[Person], size: Size, tool_items: list[int], luck: int) -> None:
        from tests.benchmarks.curation_parts.people import Annotator, Record

        self.record, self.site = Record(), site
        reach = {
            "environment": size.environments, "task": size.tasks, "trajectory": size.trajectories,
            "stepped": size.stepped,
        }  # fmt: skip
        self.crowd = [
            Annotator(one, site, reach, tool_items, random.Random(f"{luck} {index}"), self.record)
            for index, one in enumerate(persons)
        ]
        self.processors = Processors()

    async def warm(self) -> None:
        """The first of each page, which loads what lives on; nobody waits for it twice."""
        from tests.benchmarks.curation_parts.people import MIX

        for _ in range(2):
            for action in MIX:
                await getattr(self.crowd[0], action)()
        self.record.forget()
        self.processors.look()

    async def day(self, minutes: float, think: float) -> dict[str, Any]:
        begin = time.monotonic()
        await asyncio.gather(*(one.day(begin + 60 * minutes, think) for one in self.crowd))
        times = self.record.times
        pages = sorted(times, key=lambda name: -rank(times[name], 0.95))
        found = {
            "p95_ms": {name: rank(times[name], 0.95) for name in pages},
            "p50_ms": {name: rank(times[name], 0.5) for name in pages},
            "asked": {name: len(times[name]) for name in pages},
            "requests": self.record.requests,
            "requests_per_s": round(self.record.requests / (time.monotonic() - begin), 1),
            "over_wanted": [name for name in pages if rank(times[name], 0.95) > WANTED_MS],
            **self.processors.look(),
        }
        self.record.forget()
        return found

    async def closed(self, seconds: float, number: int) -> dict[str, Any]:
        before, begin = len(self.record.accepted), time.monotonic()
        await asyncio.gather(*(one.closed(begin + seconds) for one in self.crowd[:number]))
        passed, times = time.monotonic() - begin, self.record.to_next
        found = {
            "decisions_per_s": round((len(self.record.accepted) - before) / passed, 1),
            "decision_to_next_ms": {"p50": rank(times, 0.5), "p95": rank(times, 0.95)},
            "closed_people": number,
            "closed_cpu": self.processors.look(),
        }
        self.record.forget()
        return found

    async def searches(self, number: int) -> dict[str, Any]:
        for _ in range(number):
            await self.crowd[0].find(self.crowd[0].query())
        times = self.record.times["search"]
        return {"search_p50_ms": rank(times, 0.5), "search_p95_ms": rank(times, 0.95)}

    async def all(self, given: argparse.Namespace) -> dict[str, Any]:
        await self.warm()
        return {
            **await self.day(given.minutes, given.think),
            **await self.closed(given.closed_seconds, given.closed_people),
            **await self.searches(given.searches),
        }


def measure(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    from tests.benchmarks.curation_parts import seed as curation_seed
    from tests.fixtures.processes import site

    names = ("environments", "tasks", "trajectories", "annotators")
    stepped = min(curation_seed.Size.stepped, given.trajectories // 10)
    size = curation_seed.Size(**{name: getattr(given, name) for name in names}, stepped=stepped)
    begin = time.monotonic()
    queues = curation_seed.seed(size, given.seed)
    seeded = time.monotonic() - begin
    persons = people(size.annotators, queues[:-1])  # the last holds tools, which they only look at
    with site(folder) as url:
        load = Load(url, persons, size, items_of(queues[-1]), given.seed)
        found = asyncio.run(load.all(given))
    wrong = load.record.errors
    return {
        **found,
        "double_assignments": counted(DOUBLE),
        "lost_decisions": lost(load.record, [one.pk for one in persons]),
        "counts_wrong": counted(WRONG_COUNTS),
        "decisions": len(load.record.accepted),
        "refused": dict(load.record.refused),
        "server_errors": sum(
            number for words, number in wrong.items() if not words.endswith((": 401", ": 403", ": 404"))
        ),
        "errors": dict(wrong),
        "sizes": vars(size) | {"queue_items": {queue.name: queue.item_count for queue in queues}},
        "seed_s": round(seeded, 1),
        "seed": given.seed,
        "minutes": given.minutes,
        "think_s": given.think,
        "wanted_ms": WANTED_MS,
        "wanted_search_ms": WANTED_SEARCH_MS,
        "load": [round(value, 1) for value in os.getloadavg()],
    }


def main() -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--think", type=float, default=4.0, help="mean seconds between two acts of a person")
    parser.add_argument("--closed-seconds", type=float, default=60.0)
    parser.add_argument("--closed-people", type=int, default=4)
    parser.add_argument("--searches", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    for name, number in {"annotators": 50, "environments": 2_000, "tasks": 50_000, "trajectories": 500_000}.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="curation-") as name, site_settings(Path(name), "bench_curation"):
        result = measure(Path(name), given)
    print(json.dumps(result) if given.json else json.dumps(result, indent=2))
    return result


if __name__ == "__main__":
    main()
