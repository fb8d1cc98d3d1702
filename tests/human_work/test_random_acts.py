"""200 random acts of three people among batches, a clone, imports and kills: what people made stays current.

The seed is printed; ENVARIUM_CHAOS_SEED sets another one.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from synthesis.runtime import Sandbox
from tests.edits.seed import SeedLibrary, library
from tests.fixtures.processes import site
from tests.human_work.ledger import Ledger
from tests.human_work.machines import SETTINGS, THEME, Workers, seed_files, wait_for_batches, wait_for_job
from tests.human_work.people import FORK_CALLS, Person, Session
from tests.review.seed import named
from webapp.batches.models import Batch
from webapp.environments.models import Environment
from webapp.scenarios.models import Task
from webapp.trajectories.models import Trajectory

pytestmark = [pytest.mark.kill, pytest.mark.django_db(transaction=True)]
SEED = int(os.environ.get("ENVARIUM_CHAOS_SEED", "") or 7)
DECK = {
    "draft_task": 38, "save_task": 18, "draft_program": 8, "save_program": 5, "drop": 5, "approve": 22, "reject": 14,
    "undo": 16, "bulk": 10, "draft_decision": 26, "reference": 4, "adopt": 8, "grow": 1, "batch": 1, "clone": 2,
    "retry": 3, "pause": 2, "import_same": 6, "import_program": 3, "import_tasks": 3, "kill": 5,
}  # fmt: skip
"""How often each act is tried. Their order is the seed's."""


@dataclass
class Chaos:
    """What random acts choose from, and one method for each kind of act."""

    luck: random.Random
    ledger: Ledger
    people: list[Person]
    workers: Workers
    seeds: SeedLibrary
    batches: list[int] = field(default_factory=list)
    imports: list[int] = field(default_factory=list)

    def act(self, name: str) -> None:
        person = self.luck.choice(self.people)
        if name in ("approve", "reject"):
            person.act("decide", self.task(), name)
        elif name.startswith("import_"):
            self.bring(person, name)
        else:
            getattr(self, name)(person)

    def task(self) -> int:
        return self.luck.choice(list(Task.objects.order_by("pk").values_list("pk", flat=True)))

    def environment(self) -> Environment:
        return self.luck.choice(list(Environment.objects.filter(current__isnull=False).order_by("pk")))

    def draft_task(self, person: Person) -> None:
        person.act("draft_task", self.task())

    def draft_program(self, person: Person) -> None:
        person.act("draft_program", self.environment().current_id)

    def save_task(self, person: Person) -> None:
        self.save(person, [edit for edit, task in person.edits.items() if task] or None)

    def save_program(self, person: Person) -> None:
        self.save(person, [edit for edit, task in person.edits.items() if not task] or None)

    def save(self, person: Person, edits: list[int] | None) -> None:
        """Save a draft; one that others overtook is put on what is current, and saved then."""
        if edits is None:
            return
        edit = self.luck.choice(edits)
        if not person.act("save", edit) and person.act("renew", edit):
            person.act("save", edit)

    def drop(self, person: Person) -> None:
        if person.edits:
            person.act("drop", self.luck.choice(list(person.edits)))

    def undo(self, person: Person) -> None:
        if person.decided:
            person.act("undo", self.luck.choice(list(person.decided)))

    def bulk(self, person: Person) -> None:
        verdict = self.luck.choice(("approve", "reject"))
        person.act("decide_many", sorted({self.task() for _ in range(3)}), verdict)

    def draft_decision(self, person: Person) -> None:
        person.act("draft_decision", self.task())

    def reference(self, person: Person) -> None:
        key = self.luck.choice(list(FORK_CALLS))
        task = self.seeds.tasks[key].pk
        run = Trajectory.objects.filter(task=task, parent=None).order_by("pk").values_list("pk", flat=True)[0]
        person.act("make_reference", task, key, run)

    def adopt(self, person: Person) -> None:
        origins = [f"batch={pk}" for pk in self.batches] + [f"job={pk}" for pk in self.imports]
        for origin in self.luck.sample(origins, len(origins)):
            if person.act("adopt", origin):
                return

    def grow(self, person: Person) -> None:
        made = Environment.objects.filter(source="scripted").values_list("pk", flat=True)[0]
        self.begin(person, "/batches", {"environment_ids": [made], "settings": SETTINGS})

    def batch(self, person: Person) -> None:
        self.begin(person, "/batches", {"bundled": [THEME], "settings": SETTINGS})

    def clone(self, person: Person) -> None:
        """As it was, or so that tools are not repaired: another program."""
        changes = self.luck.choice(({}, {"stages": {"repairs": 0}}))
        self.begin(person, f"/batches/{self.batches[0]}/clone", {"settings": changes})

    def begin(self, person: Person, path: str, body: dict[str, object]) -> None:
        answer = person.ask("POST", path, body)
        assert answer is not None, path
        self.batches.append(answer.json()["id"])

    def retry(self, person: Person) -> None:
        """Try again what was rejected or failed; the batch runs again."""
        person.ask("POST", f"/batches/{self.luck.choice(self.batches)}/retry", {"rejected": True})

    def pause(self, person: Person) -> None:
        person.ask("POST", f"/batches/{self.batches[-1]}/pause")

    def bring(self, person: Person, name: str) -> None:
        changed = "" if name == "import_same" else f"{name.removeprefix('import_')} {self.luck.randint(1, 3)}"
        answer = person.session.upload("/imports/environments", seed_files(changed))
        assert answer.status_code == 202, answer.content
        self.imports.append(answer.json()["id"])
        if self.luck.random() < 0.5:
            wait_for_job(self.imports[-1])

    def kill(self, person: Person) -> None:
        self.workers.kill(self.luck)


@pytest.fixture
def chaos(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chaos]:
    monkeypatch.setattr("webapp.jobs.services.REQUEUE_AFTER", timedelta(seconds=2))
    luck, ledger = random.Random(SEED), Ledger()
    users = [named(name, role) for name, role in (("ada", "admin"), ("bo", "adjudicator"), ("cy", "annotator"))]
    seeds = library(sandbox)
    with site(tmp_path) as url, Workers(tmp_path) as workers:
        people = [Person(Session(url, user), ledger, luck, wait_for_job) for user in users]
        made = Chaos(luck, ledger, people, workers, seeds)
        made.batch(people[0])
        wait_for_batches(people)
        yield made


def test_nothing_that_a_person_made_stops_being_current_without_a_person(chaos: Chaos) -> None:
    print(f"ENVARIUM_CHAOS_SEED={SEED}")
    deck = [name for name, count in DECK.items() for _ in range(count)]
    chaos.luck.shuffle(deck)
    assert len(deck) == 200
    for number, name in enumerate(deck):
        chaos.act(name)
        faults = chaos.ledger.find_faults()
        assert not faults, f"seed {SEED}, after act {number}, {name}: {faults}"
    wait_for_batches(chaos.people)
    assert not chaos.ledger.find_faults(), f"seed {SEED}, at the end"
    done, refused = (sum((getattr(one, name) for one in chaos.people), Counter()) for name in ("done", "refused"))
    print(f"taken {dict(done)}, refused {dict(refused)}, kills {chaos.workers.kills}")
    for name in ("save", "decide", "undo", "decide_many", "make_reference", "adopt", "draft_task", "draft_program"):
        assert done[name], f"seed {SEED}: no {name} was taken: {done}"
    assert chaos.workers.kills == DECK["kill"]
    assert Batch.objects.filter(state="done").count() == len(chaos.batches) == 5
