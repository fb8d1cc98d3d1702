"""Slots of a worker that serves: each claims a deployment, serves it to its end, and claims the next."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from synthesis.errors import EnvariumError, InfrastructureError
from training.worker.assignment import parse_reply
from training.worker.client import Client, GivenUp, Unauthorised
from training.worker.serving.deployment import Serving, ToServe
from training.worker.serving.model_server import ServerKind

CLAIM_WAIT_S = 5.0
IDLE_CLAIMS = 3
"""With `until_idle` so many claims in a row find nothing."""


@dataclass
class Slots:
    """Shared state of a worker's serving slots."""

    client: Client
    worker: Callable[[], str]
    home: Path
    kind: ServerKind
    threads: int
    heartbeat_s: float
    until_idle: bool
    ending: Callable[[], bool]
    say: Callable[[str], None]
    failed: list[EnvariumError] = field(default_factory=list)
    busy: set[int] = field(default_factory=set)

    def run(self, count: int) -> None:
        """Serve in `count` slots until this worker ends; with `until_idle`, until nothing waits and nothing is served.

        Raises the error that ended a slot: Unauthorised, InfrastructureError.
        """
        # Remains of a killed worker: its servers have ended, and other workers may serve their models by now.
        shutil.rmtree(self.home / "deployments", ignore_errors=True)
        slots = [
            threading.Thread(target=self._run_slot, args=(number,), name=f"slot-{number}") for number in range(count)
        ]
        for slot in slots:
            slot.start()
        for slot in slots:
            slot.join()
        if self.failed:
            raise self.failed[0]

    def _is_over(self) -> bool:
        return self.ending() or bool(self.failed)

    def _run_slot(self, number: int) -> None:
        """Run a slot's thread. Boundary: an error in one slot ends all of them."""
        idle = 0
        try:
            while not self._is_over():
                claimed = self._claim()
                if claimed is None:
                    idle += 1
                    if self.until_idle and idle >= IDLE_CLAIMS and not self.busy:
                        return
                    continue
                idle = 0
                self.busy.add(number)
                try:
                    self._serve(claimed)
                finally:
                    self.busy.discard(number)
        except GivenUp:
            return
        except EnvariumError as error:
            self.failed.append(error)
        except OSError as error:
            self.failed.append(InfrastructureError(f"The worker's folder cannot be used: {error}"))

    def _claim(self) -> ToServe | None:
        path = f"workers/{self.worker()}/deployments/claim"
        params: dict[str, str | int] = {"wait_s": int(CLAIM_WAIT_S)}
        reply = self.client.call("POST", path, {}, params=params, wait_s=CLAIM_WAIT_S)
        return parse_reply(ToServe, reply) if reply is not None else None

    def _serve(self, told: ToServe) -> None:
        serving = Serving(
            self.client, told, self.home, self.kind, threads=self.threads, heartbeat_s=self.heartbeat_s,
            ending=self._is_over, say=self.say,
        )  # fmt: skip
        try:
            serving.run()
        except Unauthorised as error:
            self.failed.append(error)
