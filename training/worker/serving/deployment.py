"""One deployment at a worker, from its claim to its end: files fetched, server started, requests answered."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import Field

from synthesis.errors import EnvariumError, InfrastructureError, InputError
from training import lifeline
from training.worker.assignment import LOCK, RemoteFile, ServerMessage
from training.worker.attempt_folder import bring, require_room
from training.worker.client import Client, GivenUp, ServerRefusal, StaleAttempt
from training.worker.serving.model_server import LOG, ModelServer, ServerKind, ServerSettings, said

LOOK_S = 0.2
TAKE_WAIT_S = 5.0
START_S = 3_600.0
"""A server that does not answer after so long never will."""
MOST_TAKEN = 64


class ToServe(ServerMessage):
    """What a claim gives."""

    deployment: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    attempt: int = Field(ge=1)
    model: str = Field(max_length=200)
    context: int = Field(default=0, ge=0)
    at_once: int = Field(default=32, ge=1, le=1_000)
    memory_share: float = Field(default=0.85, gt=0, lt=1)
    files: tuple[RemoteFile, ...] = Field(min_length=1, max_length=10_000)


class Serving:
    """Serves one deployment until it is stopped, lost, or this worker ends (`ending`)."""

    def __init__(
        self,
        client: Client,
        told: ToServe,
        home: Path,
        kind: ServerKind,
        *,
        threads: int,
        heartbeat_s: float,
        ending: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        self.client, self.told, self.kind, self.say = client, told, kind, say
        self.folder, self.cache = home / "deployments" / f"{told.deployment}-{told.attempt}", home / "cache"
        self.threads, self.heartbeat_s, self.ending = threads, heartbeat_s, ending
        self.server: ModelServer | None = None
        self.ready, self.stale, self.over = False, False, threading.Event()
        self._holding: set[str] = set()
        self._changed = threading.Condition()

    def run(self) -> None:
        """Serve. What goes wrong is told to the site; Unauthorised and GivenUp are raised."""
        self.say(f"{self.told.model}: attempt {self.told.attempt} begins, on {self.kind}")
        beats = threading.Thread(target=self._beats, name="beats", daemon=True)
        held = -1
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            held = lifeline.hold(self.folder / LOCK)
            beats.start()
            self._serve()
        except StaleAttempt:
            self.stale = True
        except InputError as error:
            self._end("failed", str(error))
        except GivenUp:
            self._end("released", "")
        except (InfrastructureError, OSError) as error:
            self._end("crashed", str(error))
        finally:
            self.over.set()
            if self.server is not None:
                self.server.end()
            if held >= 0:
                os.close(held)
            shutil.rmtree(self.folder, ignore_errors=True)
            if self.stale:
                self.say(f"{self.told.model}: is not served by attempt {self.told.attempt} any more")

    def _stops(self) -> bool:
        return self.stale or self.ending()

    def _serve(self) -> None:
        require_room(self.told.files, self.folder, self.cache)
        for file in self.told.files:
            bring(self.client, file, self.folder / "model" / file.path, self.cache, True, self._stops)
        settings = ServerSettings(
            self.folder / "model", self.told.context, self.told.at_once, self.told.memory_share, self.threads
        )
        server = self.server = ModelServer(self.kind, settings, self.folder / LOCK, self.folder / LOG)
        began = time.monotonic()
        while not self._stops() and not server.answers():
            if not server.is_alive:
                return self._end("failed", server.why_ended())
            if time.monotonic() - began > START_S:
                return self._end("failed", f"The server did not answer within {START_S:g} seconds.")
            time.sleep(LOOK_S)
        if not self._stops():
            self.ready = True
            self._beat()
            self.say(f"{self.told.model}: ready")
            self._answer_all(server)
        if self.ending():
            self._end("released", "")
        elif not self.stale and not server.is_alive:
            self._end("crashed", server.why_ended())

    def _answer_all(self, server: ModelServer) -> None:
        with ThreadPoolExecutor(self.told.at_once, thread_name_prefix="answer") as pool:
            try:
                while not self._stops() and server.is_alive:
                    free = self.told.at_once - len(self._holding)
                    if free < 1:
                        with self._changed:
                            self._changed.wait(LOOK_S)
                        continue
                    for request in self._take(min(free, MOST_TAKEN)):
                        self._holding.add(str(request["id"]))
                        pool.submit(self._answer, server, request)
            finally:
                # Whoever still waits is told by the site that this attempt is gone.
                server.end()

    def _take(self, most: int) -> list[dict[str, Any]]:
        params: dict[str, str | int] = {"wait_s": int(TAKE_WAIT_S), "most": most}
        reply = self._call("requests", {}, params=params, wait_s=TAKE_WAIT_S) or {}
        listed = reply.get("requests")
        good = isinstance(listed, list) and all(isinstance(one, dict) and "id" in one for one in listed)
        return listed if good and isinstance(listed, list) else []

    def _answer(self, server: ModelServer, request: dict[str, Any]) -> None:
        """Boundary of a thread: what cannot be sent is lost with the attempt, which the site tells."""
        asked = str(request["id"])
        try:
            body = request.get("body")
            status, told = server.ask(body if isinstance(body, dict) else {})
            json.dumps(told, allow_nan=False)
            self._call(f"requests/{quote(asked, safe='')}/answer", {"status": status, "body": told})
        except StaleAttempt:
            self.stale = True
        except (EnvariumError, ValueError) as error:
            self.say(f"{self.told.model}: an answer was not sent: {error}")
        finally:
            with self._changed:
                self._holding.discard(asked)
                self._changed.notify()

    def _beats(self) -> None:
        while not self.over.wait(self.heartbeat_s):
            self._beat()

    def _beat(self) -> None:
        body = {
            "ready": self.ready,
            "engine": said(self.kind),
            "log": self.server.log_end() if self.server is not None else "",
            "holding": list(self._holding)[:1_000],
        }
        try:
            self._call("beat", body, tries=1)
        except StaleAttempt:
            self.stale = True
        except (GivenUp, ServerRefusal):
            return

    def _end(self, ending: str, message: str) -> None:
        self.say(f"{self.told.model}: {ending}. {message}")
        log = self.server.log_end() if self.server is not None else ""
        with contextlib.suppress(GivenUp, StaleAttempt):
            self._call("end", {"ending": ending, "message": message[:2_000], "log": log}, tries=5)

    def _call(self, path: str, body: dict[str, Any], **how: Any) -> dict[str, Any] | None:
        at = f"deployments/{quote(self.told.deployment, safe='')}/attempts/{self.told.attempt}"
        return self.client.call("POST", f"{at}/{path}", body, **how)
