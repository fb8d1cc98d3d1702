"""Three people who act on the same objects over HTTP, each by a session of their own, and enter what they did."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx
from django.conf import settings
from django.test import Client

from tests.human_work.ledger import Ledger
from webapp.accounts.models import User

REASONS = ("too_easy", "unclear_instruction", "check_too_loose")
FORK_CALLS = {"three": ("S-1", 3), "eight": ("S-2", 8)}


class Answer(Protocol):
    status_code: int
    content: bytes

    @property
    def headers(self) -> Any: ...
    def json(self) -> Any: ...


class Session:
    """A signed-in browser that speaks to the API of a running site."""

    def __init__(self, site: str, user: User) -> None:
        client = Client()
        client.force_login(user)
        name, token = settings.SESSION_COOKIE_NAME, "a" * 32
        cookies = {name: client.cookies[name].value, settings.CSRF_COOKIE_NAME: token}
        self.site, self.user = site, user
        self.http = httpx.Client(
            base_url=f"{site}/api/v1", cookies=cookies, headers={"X-CSRFToken": token}, timeout=60.0
        )

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return self.http.request(method, path, json=body, headers=headers)

    def post_form(self, path: str) -> httpx.Response:
        """What a button of a page does."""
        return self.http.post(f"{self.site}{path}")

    def upload(self, path: str, files: dict[str, Any]) -> Answer:
        sent = {name: (f"{name}.json", json.dumps(records).encode()) for name, records in files.items()}
        return self.http.post(path, files=sent)


@dataclass
class Person:
    """A person's acts. Each ends with what it changed entered in the ledger; a refused one enters nothing."""

    session: Session
    ledger: Ledger
    luck: random.Random
    wait: Callable[[int], str]
    """Wait for a job, and give the state that it ended in."""
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    edits: dict[int, int] = field(default_factory=dict)
    """One's own open drafts: by edit, the task; 0 is a program's."""
    decided: dict[int, int] = field(default_factory=dict)
    """One's own decisions that may be undone: by decision, the task."""
    typed: int = 0

    @property
    def pk(self) -> int:
        return int(self.session.user.pk)

    def act(self, name: str, *given: Any) -> bool:
        """Do something; whether it was taken."""
        taken = bool(getattr(self, name)(*given))
        (self.done if taken else self.refused)[name] += 1
        return taken

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer | None:
        """The answer, or None if it was refused. A fault of the server fails the test."""
        answer = self.session.send(method, path, body, **headers)
        assert answer.status_code < 500, f"{method} {path}: {answer.status_code} {answer.content[:500]!r}"
        return answer if answer.status_code < 400 else None

    def read(self, path: str) -> tuple[Any, dict[str, str]]:
        """What a GET answers, and the header by which a write is bound to that."""
        answer = self.ask("GET", path)
        assert answer is not None, path
        return answer.json(), {"If-Match": answer.headers["ETag"]}

    def words(self) -> str:
        self.typed += 1
        return f"{self.session.user.username} {self.typed}"

    def draft_task(self, task: int) -> bool:
        """Begin a draft of a task, or go on with it, and keep a title or an instruction."""
        started = self.ask("POST", "/edits", {"task": task})
        if started is None:
            return False
        return self._keep(started.json()["id"], task, self.luck.choice(("title", "instruction")))

    def draft_program(self, version: int) -> bool:
        """Begin a draft of a program, or go on with it, and keep a line more."""
        started = self.ask("POST", "/edits", {"version": version})
        return started is not None and self._keep(started.json()["id"], 0, "source")

    def _keep(self, edit: int, task: int, part: str) -> bool:
        known, match = self.read(f"/edits/{edit}")
        words = f"Changed by {self.words()}."
        if part == "source":
            source = known["body"].get("source") or self._source(known["version_id"])
            body = {"source": f"{source.rstrip()}\n# {words}\n"}
        else:
            body = {**known["body"], part: words}
        kept = self.ask("PUT", f"/edits/{edit}", body, **match)
        if kept is None:
            return False
        self.ledger.drafts[edit], self.edits[edit] = kept.json()["body"], task
        return True

    def _source(self, version: int) -> str:
        from webapp.environments.models import Version

        return Version.objects.get(pk=version).source

    def save(self, edit: int) -> bool:
        """Save a draft of one's own by a job, and wait for it."""
        _, match = self.read(f"/edits/{edit}")
        started = self.ask("POST", f"/edits/{edit}/save", None, **match)
        if started is None or self.wait(started.json()["id"]) != "succeeded":
            return False
        saved, _ = self.read(f"/edits/{edit}")
        assert saved["state"] == "saved", saved
        task = self.edits.pop(edit)
        body = self.ledger.drafts.pop(edit)
        if task:
            title, instruction = self.ledger.typed.get(task, ("", ""))
            self.ledger.typed[task] = body.get("title", title), body.get("instruction", instruction)
            held = self.ledger.take_task(task)
            assert saved["saved_revision_id"] in (held.revision, None), (saved, held)
        else:
            self.ledger.take_environment(saved["environment_id"], saved["saved_version_id"])
        return True

    def renew(self, edit: int) -> bool:
        """Put a draft on what is current, as its page offers it after a refused save."""
        from webapp.edits.models import Edit

        before, answer = self.ledger.drafts[edit], self.session.post_form(f"/edits/{edit}/renew/")
        assert answer.status_code < 500, answer.text[:500]
        # What equals what is current is no part of the draft any more: it is what its author reads from now on.
        self.ledger.drafts[edit] = Edit.objects.get(pk=edit).body
        assert self.ledger.drafts[edit].items() <= before.items()
        return answer.status_code < 400

    def drop(self, edit: int) -> bool:
        """Put a draft away."""
        _, match = self.read(f"/edits/{edit}")
        if self.ask("POST", f"/edits/{edit}/drop", None, **match) is None:
            return False
        del self.ledger.drafts[edit], self.edits[edit]
        return True

    def decide(self, task: int, verdict: str) -> bool:
        _, match = self.read(f"/review/task/{task}")
        body: dict[str, Any] = {"verdict": verdict, "comment": self.words(), "overrides": verdict == "approve"}
        body["reasons"] = [] if verdict == "approve" else [self.luck.choice(REASONS)]
        answer = self.ask("POST", f"/review/task/{task}/decisions", body, **match)
        if answer is None:
            return False
        self._enter_decision(task, answer.json()["id"])
        return True

    def _enter_decision(self, task: int, decision: int) -> None:
        self.ledger.review_drafts.pop((self.pk, task), None)
        self.decided[decision] = task
        assert decision in self.ledger.take_decided_task(task).decisions

    def decide_many(self, tasks: list[int], verdict: str) -> bool:
        """One decision on several tasks."""
        from webapp.review.models import ReviewDecision

        seen = [{"task": task, "seen": self.read(f"/review/task/{task}")[0]["seen"]} for task in tasks]
        decision = {"verdict": verdict, "comment": self.words(), "overrides": True}
        decision["reasons"] = [] if verdict == "approve" else ["too_easy"]
        answer = self.ask("POST", "/review/bulk-decisions", {"tasks": seen, "decision": decision})
        if answer is None:
            return False
        made = ReviewDecision.objects.filter(group=answer.json()["group"]).values_list("task", "pk")
        assert len(made) == answer.json()["decided"]
        for task, pk in made:
            assert task is not None
            self._enter_decision(task, pk)
        return bool(made)

    def undo(self, decision: int) -> bool:
        """Take a decision of one's own back: the task is open again, and the decision a draft."""
        task = self.decided.pop(decision)
        _, match = self.read(f"/review/task/{task}")
        answer = self.ask("POST", f"/review/decisions/{decision}/undo", None, **match)
        if answer is None:
            return False
        self.ledger.review_drafts.setdefault((self.pk, task), answer.json()["comment"])
        assert decision not in self.ledger.take_decided_task(task).decisions
        return True

    def draft_decision(self, task: int) -> bool:
        """Fill in a decision and keep it without deciding."""
        state, _ = self.read(f"/review/task/{task}")
        _, match = self.read(f"/review/task/{task}/draft")
        body = {"verdict": "reject", "comment": f"Half a thought of {self.words()}", "seen": state["seen"]}
        if self.ask("PUT", f"/review/task/{task}/draft", body, **match) is None:
            return False
        self.ledger.review_drafts[self.pk, task] = str(body["comment"])
        return True

    def make_reference(self, task: int, key: str, run: int) -> bool:
        """Fork an attempt by hand, and let the fork's calls be the reference of its task."""
        lot, packets = FORK_CALLS[key]
        calls: list[dict[str, Any]] = [{"tool": "list_lots", "arguments": {}}] * (1 + self.typed % 29)
        calls = [*calls, {"tool": "lend_packets", "arguments": {"lot_id": lot, "packets": packets}}]
        self.words()
        started = self.ask("POST", f"/trajectories/{run}/forks", {"step": 1, "calls": calls, "answer": self.words()})
        if started is None or self.wait(started.json()["id"]) != "succeeded":
            return False
        made, _ = self.read(f"/jobs/{started.json()['id']}")
        audited = self.ask("POST", f"/trajectories/{made['result']['trajectory']}/reference")
        if audited is None:
            return False
        self.wait(audited.json()["id"])
        self.ledger.take_task(task)
        return True

    def adopt(self, query: str) -> bool:
        """Make current something that a batch or an import stored beside human work."""
        for kind in self.luck.sample(("versions", "revisions"), 2):
            listed, _ = self.read(f"/edits/beside/{kind}?{query}")
            if not listed["data"]:
                continue
            one = self.luck.choice(listed["data"])
            _, match = self.read(f"/edits/beside/{kind}/{one['id']}")
            if self.ask("POST", f"/edits/beside/{kind}/{one['id']}/adopt", None, **match) is None:
                return False
            if kind == "versions":
                self.ledger.take_environment(one["environment_id"], one["id"])
            else:
                self.ledger.typed.pop(one["task_id"], None)
                assert self.ledger.take_task(one["task_id"]).revision == one["id"]
            return True
        return False
