"""Annotators at their browsers: pages with the parts that these load, the item after the one in hand fetched ahead."""

from __future__ import annotations

import asyncio
import html
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import httpx
from django.urls import resolve

from tests.benchmarks.curation_parts.seed import WORDS

THINK_S = 4.0
AHEAD_S = 0.3
"""So long after an item is shown the browser asks for the next one (`review.js`)."""
LETTERS_S = 0.25
"""Between two requests of somebody who types into the palette."""
MIX = {
    "item": 43, "task": 8, "tasks": 14, "trajectories": 8, "replay": 8, "home": 4, "search": 8, "tool": 3, "edit": 4,
}  # fmt: skip
"""What an annotator does next, in parts of a hundred; `item` is whatever the queue asks for: pull, draft, decide."""
REASONS = ("unclear_instruction", "check_too_narrow", "check_too_loose", "too_easy", "too_hard")
TASK_FILTERS = (
    "audit=green", "audit=red", "review=draft", "category=Health", "q={word}", "q={word}&audit=green",
    "environment={environment}", "low=0.5&high=1", "finding=any&review=draft",
)  # fmt: skip
TASK_SORTS = ("-trajectory_count", "do_nothing", "-check_count", "-finding_count", "-audit_state", "id")
RUN_FILTERS = (
    "outcome=failed", "outcome=solved&policy=qwen3-8b", "replay=diverged", "policy=llama", "source=envscaler",
    "environment={environment}", "task={task}", "low=0.5&high=0.9",
)  # fmt: skip
RUN_ORDERS = ("reward", "-reward", "id")
LIMITS = httpx.Limits(keepalive_expiry=3)
"""The server ends an idle connection after five seconds; a browser that met this asks once more, httpx would not."""
PART = {"HX-Request": "true"}
HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')
TAG = re.compile(r'<[a-z]+\s[^>]*hx-trigger="load[^>]*>')
NEXT = re.compile(r'href="([^"]*[?;&]after=[^"]*)"')


@dataclass(frozen=True)
class Person:
    """An account with an open session, and the queue that it works."""

    pk: int
    cookies: dict[str, str]
    queue: int


@dataclass(frozen=True)
class Accepted:
    """A decision that the server said it has taken."""

    pk: int
    user: int
    item: int
    verdict: str


@dataclass
class Record:
    """What all annotators saw: times by page, answers that were no success, and what was taken."""

    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    accepted: list[Accepted] = field(default_factory=list)
    unanswered: list[tuple[int, int]] = field(default_factory=list)
    """(user, item) of decisions whose answer never came or was an error: they may be there or not."""
    to_next: list[float] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return sum(map(len, self.times.values()))

    def forget(self) -> None:
        """Begin the figures anew; what was decided stays known."""
        self.times.clear()
        self.to_next.clear()


@dataclass
class Hand:
    """The item in hand: its address and the decision form's hidden fields, as the page had them."""

    url: str
    fields: dict[str, str]
    bar: dict[str, str]
    approvable: bool
    drafted: bool = False

    @property
    def item(self) -> int:
        return int(resolve(self.url).kwargs["pk"])


def hand_of(url: str, page: str) -> Hand | None:
    """The item that a page lets its reader decide on; None where it does not."""
    begin = page.find('id="decide"')
    if begin < 0:
        return None
    inner = page[begin : page.index("</form>", begin)]
    bar = dict(re.findall(r'data-(heartbeat|ahead)="([^"]*)"', page))
    draft = re.search(r'data-draft="([^"]*)"', page)
    fields = {name: html.unescape(value) for name, value in HIDDEN.findall(inner)}
    return Hand(
        url.partition("?")[0], fields, bar | {"draft": draft[1] if draft else ""}, "data-obstacles" not in inner
    )


def part_name(url: str) -> str:
    return f"part {resolve(url.partition('?')[0]).view_name}"


class Annotator:
    """One signed-in person at one browser."""

    def __init__(
        self,
        person: Person,
        site: str,
        reach: dict[str, int],
        tool_items: Sequence[int],
        luck: random.Random,
        record: Record,
    ) -> None:
        self.user, self.queue, self.luck, self.reach = person.pk, person.queue, luck, reach
        self.tool_items = tool_items
        self.client = httpx.AsyncClient(base_url=site, cookies=person.cookies, timeout=60, limits=LIMITS)
        self.record = record
        self.hand: Hand | None = None
        self.ahead: Hand | None = None
        self.token = ""
        self.more = ""

    async def ask(
        self, name: str, url: str, data: dict[str, str] | None = None, headers: dict[str, str] | None = None
    ) -> httpx.Response | None:
        """One request to its last byte; None where no answer came, or one that is no page of theirs."""
        begin = time.perf_counter()
        try:
            if data is None:
                answer = await self.client.get(url, headers=headers)
            else:
                answer = await self.client.post(url, data=data, headers=headers or {"X-CSRFToken": self.token})
        except httpx.HTTPError as error:
            self.record.errors[f"{name}: {type(error).__name__}"] += 1
            return None
        self.record.times[name].append((time.perf_counter() - begin) * 1000)
        if answer.status_code >= 500 or answer.status_code in (401, 403, 404):
            self.record.errors[f"{name}: {answer.status_code}"] += 1
            return None
        return answer

    async def see(self, name: str, url: str) -> str:
        """Open a page and what it loads by itself; its text, empty where it did not come."""
        answer = await self.ask(name, url)
        if answer is None or answer.status_code != 200:
            self.record.errors[f"{name}: no page"] += 1
            return ""
        page = answer.text
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]*)"', page)
        self.token = found[1] if found else self.token
        await self.load_parts(name, page)
        return page

    async def load_parts(self, name: str, page: str) -> None:
        tags = [re.search(r'hx-get="([^"]*)"', tag) for tag in TAG.findall(page)]
        urls = [html.unescape(found[1]) for found in tags if found]
        await asyncio.gather(*(self.ask(part_name(url), url, headers=PART) for url in urls))

    async def pull(self) -> None:
        """Ask the queue for an item and open it."""
        if not self.token:
            await self.home()
        answer = await self.ask("pull", f"/review/{self.queue}/next/", {})
        if answer is not None and answer.status_code == 302:
            await self.take(answer.headers["Location"])

    async def take(self, url: str) -> None:
        """Open the item that a redirect leads to; a queue's page where nothing is left."""
        page = await self.see("item" if "/items/" in url else "queue", url)
        self.hand, self.ahead = hand_of(url, page) if "/items/" in url else None, None

    async def fetch_ahead(self) -> None:
        """What the browser does while the item is read: hold the next one and fetch its page."""
        hand = self.hand
        if hand is None or "ahead" not in hand.bar:
            return
        await asyncio.sleep(AHEAD_S)
        answer = await self.ask("ahead", hand.bar["ahead"], {})
        url = answer.json()["url"] if answer is not None and answer.status_code == 200 else None
        page = await self.ask("item ahead", f"{url}?ahead=1") if url else None
        self.ahead = hand_of(url, page.text) if url and page is not None else None

    def choice(self, hand: Hand) -> dict[str, str]:
        verdicts = ("approve", "request_changes", "reject")
        verdict = self.luck.choices(verdicts, (75 if hand.approvable else 0, 15, 10))[0]
        reasons = {"reasons": self.luck.choice(REASONS)} if verdict != "approve" else {}
        said = " ".join(self.luck.choices(WORDS, k=self.luck.randrange(12)))
        return {**hand.fields, "verdict": verdict, **reasons, "comment": said, "seconds": "4"}

    async def draft(self, hand: Hand) -> None:
        hand.drafted = True
        await self.ask("draft", hand.bar["draft"], self.choice(hand))

    async def decide(self, hand: Hand, scripted: bool) -> None:
        """Decide; with the next item fetched ahead as the page's script does, else as the bare form does."""
        given = self.choice(hand) | ({"scripted": "1"} if scripted else {})
        begin = time.perf_counter()
        answer = await self.ask("decide", f"{hand.url}decide/", given)
        self.hand = None
        if answer is None:
            self.record.unanswered.append((self.user, hand.item))
            return
        pk = (
            answer.json().get("decision")
            if scripted
            else re.search(r"decided=(\d+)", answer.headers.get("Location", ""))
        )
        if answer.status_code == 302 and pk is None and "/items/" not in answer.headers.get("Location", ""):
            self.record.unanswered.append((self.user, hand.item))  # the queue's last: its page says so without a number
            return
        if answer.status_code not in (200, 302) or pk is None:
            self.record.refused[str(answer.status_code)] += 1
            return
        decision = int(pk[1]) if isinstance(pk, re.Match) else int(pk)
        self.record.accepted.append(Accepted(decision, self.user, hand.item, given["verdict"]))
        if scripted:
            await self.show_ahead()
        else:
            await self.take(answer.headers["Location"])
            if self.hand is not None:
                self.record.to_next.append((time.perf_counter() - begin) * 1000)

    async def show_ahead(self) -> None:
        self.hand, self.ahead = self.ahead, None
        if self.hand is None or "heartbeat" not in self.hand.bar:
            return
        answer = await self.ask("heartbeat", self.hand.bar["heartbeat"], {"seconds": "0"})
        if answer is not None and answer.status_code == 200:
            self.hand.fields["assignment"] = str(answer.json()["assignment"])

    async def item(self) -> None:
        """Whatever the queue asks for next."""
        hand = self.hand
        if hand is None:
            await self.pull()
            await self.fetch_ahead()
        elif not hand.drafted and self.luck.random() < 0.5:
            await self.draft(hand)
        else:
            await self.decide(hand, scripted=self.ahead is not None)
            await self.fetch_ahead()

    async def home(self) -> None:
        await self.see("home", "/")

    async def task(self) -> None:
        await self.see("task", f"/tasks/{self.luck.randint(1, self.reach['task'])}/")

    async def tool(self) -> None:
        """Look at a failing tool on its desk; every other time open its draft in the place of its source."""
        page = await self.see("tool desk", f"/review/items/{self.luck.choice(self.tool_items)}/")
        found = re.search(r'hx-post="(/edits/tool/\d+/)"', page)
        if found and self.luck.random() < 0.5:
            pane = {**PART, "HX-Target": "tool-source", "X-CSRFToken": self.token}
            await self.ask("tool's draft on its desk", found[1], {}, pane)

    async def edit(self) -> None:
        """Open the draft of a task, and keep what is typed in it every other time."""
        answer = await self.ask("begin an edit", f"/edits/task/{self.luck.randint(1, self.reach['task'])}/", {})
        if answer is None or answer.status_code != 302:
            return
        url = answer.headers["Location"]
        page = await self.see("edit", url)
        serial = re.search(r'name="serial" value="(\d+)"', page)
        if serial and self.luck.random() < 0.5:
            typed = {
                "title": "Another title", "instruction": " ".join(self.luck.choices(WORDS, k=20)), "calls": "[]",
                "serial": serial[1], "act": "keep",
            }  # fmt: skip
            await self.ask("keep a draft", f"{url}keep/", typed)

    async def replay(self) -> None:
        newest = self.luck.randrange(self.reach["stepped"])
        await self.see("replay", f"/trajectories/{self.reach['trajectory'] - newest}/")

    def filled(self, pattern: str) -> str:
        picked = {name: self.luck.randint(1, self.reach[name]) for name in ("environment", "task")}
        return pattern.format(word=self.luck.choice(WORDS), **picked)

    async def rows(self, name: str, url: str, filters: tuple[str, ...], order: str, orders: tuple[str, ...]) -> None:
        """A list as it is, narrowed, in another order, or the page after the one last seen."""
        luck = self.luck.random()
        if self.more.startswith(url) and luck < 0.35:
            name, url = f"{name}, next page", self.more
        elif luck < 0.7:
            name, url = f"{name}, filtered", f"{url}?{self.filled(self.luck.choice(filters))}"
        elif luck < 0.88:
            name, url = f"{name}, sorted", f"{url}?{order}={self.luck.choice(orders)}"
        found = NEXT.search(await self.see(name, url))
        self.more = ""
        if found:
            more = html.unescape(found[1])
            self.more = f"{url.partition('?')[0]}{more}" if more.startswith("?") else more

    async def tasks(self) -> None:
        await self.rows("tasks", "/tasks/", TASK_FILTERS, "sort", TASK_SORTS)

    async def trajectories(self) -> None:
        await self.rows("trajectories", "/trajectories/", RUN_FILTERS, "order", RUN_ORDERS)

    def query(self) -> str:
        """What somebody types into the palette: one word, two, the beginning of one, a number, or what is not there."""
        word, other = self.luck.choices(WORDS, k=2)
        number = str(self.luck.randint(1, self.reach["task"]))
        return self.luck.choices(
            (word, f"{word} {other}", word[:4], f"{word} {number}", number, "zebra"), (4, 4, 2, 1, 1, 1)
        )[0]

    async def find(self, text: str) -> None:
        url = str(httpx.URL("/search/", params={"q": text}))
        await self.ask("search", url, headers={**PART, "HX-Target": "palette-hits"})

    async def search(self) -> None:
        """Type a query: the palette asks once on the way and once at its end."""
        text = self.query()
        if len(text) > 5:
            await self.find(text[: self.luck.randint(3, len(text) - 1)])
            await asyncio.sleep(LETTERS_S)
        await self.find(text)

    async def day(self, until: float, think: float) -> None:
        """Work with pauses until then."""
        while True:
            await asyncio.sleep(self.luck.expovariate(1 / think))
            if time.monotonic() >= until:
                return
            action: Callable[[], Awaitable[None]] = getattr(self, self.luck.choices(list(MIX), list(MIX.values()))[0])
            await action()

    async def closed(self, until: float) -> None:
        """Decide on one item after another without a pause, as the bare form does, until then."""
        while time.monotonic() < until:
            if self.hand is None:
                await self.pull()
                if self.hand is None:
                    return
            await self.decide(self.hand, scripted=False)
