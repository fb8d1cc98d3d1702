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
from training.worker.attempt_folder import place_file, require_room
from training.worker.client import Client, GivenUp, ServerRefusal, StaleAttempt
from training.worker.serving.model_server import LOG, ModelServer, ServerKind, ServerSettings, describe_server

LOOK_S = 0.2
TAKE_WAIT_S = 5.0
START_S = 3_600.0
"""A server that does not answer after so long never will."""
MOST_TAKEN = 64


class ToServe(ServerMessage):
    """Reply to a claim of a deployment."""

    deployment: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    attempt: int = Field(ge=1)
    model: str = Field(max_length=200)
    context: int = Field(default=0, ge=0)
    at_once: int = Field(default=32, ge=1, le=1_000)
    memory_share: float = Field(default=0.85, gt=0, lt=1)
    files: tuple[RemoteFile, ...] = Field(min_length=1, max_length=10_000)


class Serving:
    """A deployment that is served until it is stopped or lost, or this worker ends (`ending`)."""

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
        """Serve the deployment. Errors are reported to the site; Unauthorised and GivenUp are raised."""
        self.say(f"{self.told.model}: attempt {self.told.attempt} begins, on {self.kind}")
        beats = threading.Thread(target=self._send_beats, name="beats", daemon=True)
        lock_file = -1
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock_file = lifeline.hold_lock(self.folder / LOCK)
            beats.start()
            self._serve()
        except StaleAttempt:
            self.stale = True
        except InputError as error:
            self._report_end("failed", str(error))
        except GivenUp:
            self._report_end("released", "")
        except (InfrastructureError, OSError) as error:
            self._report_end("crashed", str(error))
        finally:
            self.over.set()
            if self.server is not None:
                self.server.end()
            if lock_file >= 0:
                os.close(lock_file)
            shutil.rmtree(self.folder, ignore_errors=True)
            if self.stale:
                self.say(f"{self.told.model}: is not served by attempt {self.told.attempt} any more")

    def _is_stopping(self) -> bool:
        return self.stale or self.ending()

    def _serve(self) -> None:
        require_room(self.told.files, self.folder, self.cache)
        for file in self.told.files:
            place_file(self.client, file, self.folder / "model" / file.path, self.cache, True, self._is_stopping)
        settings = ServerSettings(
            self.folder / "model", self.told.context, self.told.at_once, self.told.memory_share, self.threads
        )
        server = self.server = ModelServer(self.kind, settings, self.folder / LOCK, self.folder / LOG)
        began = time.monotonic()
        while not self._is_stopping() and not server.answers():
            if not server.is_alive:
                return self._report_end("failed", server.describe_end())
            if time.monotonic() - began > START_S:
                return self._report_end("failed", f"The server did not answer within {START_S:g} seconds.")
            time.sleep(LOOK_S)
        if not self._is_stopping():
            self.ready = True
            self._send_beat()
            self.say(f"{self.told.model}: ready")
            self._answer_all(server)
        if self.ending():
            self._report_end("released", "")
        elif not self.stale and not server.is_alive:
            self._report_end("crashed", server.describe_end())

    def _answer_all(self, server: ModelServer) -> None:
        with ThreadPoolExecutor(self.told.at_once, thread_name_prefix="answer") as pool:
            try:
                while not self._is_stopping() and server.is_alive:
                    free = self.told.at_once - len(self._holding)
                    if free < 1:
                        with self._changed:
                            self._changed.wait(LOOK_S)
                        continue
                    for request in self._take(min(free, MOST_TAKEN)):
                        self._holding.add(str(request["id"]))
                        pool.submit(self._answer, server, request)
            finally:
                # The site notifies the remaining callers that this attempt has ended.
                server.end()

    def _take(self, most: int) -> list[dict[str, Any]]:
        params: dict[str, str | int] = {"wait_s": int(TAKE_WAIT_S), "most": most}
        reply = self._call("requests", {}, params=params, wait_s=TAKE_WAIT_S) or {}
        listed = reply.get("requests")
        good = isinstance(listed, list) and all(isinstance(one, dict) and "id" in one for one in listed)
        return listed if good and isinstance(listed, list) else []

    def _answer(self, server: ModelServer, request: dict[str, Any]) -> None:
        """Answer one request. Boundary of a thread: an answer that cannot be sent is lost with the attempt, which the
        site reports.
        """
        request_id = str(request["id"])
        try:
            body = request.get("body")
            status, answer_body = server.ask(body if isinstance(body, dict) else {})
            json.dumps(answer_body, allow_nan=False)
            self._call(f"requests/{quote(request_id, safe='')}/answer", {"status": status, "body": answer_body})
        except StaleAttempt:
            self.stale = True
        except (EnvariumError, ValueError) as error:
            self.say(f"{self.told.model}: an answer was not sent: {error}")
        finally:
            with self._changed:
                self._holding.discard(request_id)
                self._changed.notify()

    def _send_beats(self) -> None:
        while not self.over.wait(self.heartbeat_s):
            self._send_beat()

    def _send_beat(self) -> None:
        body = {
            "ready": self.ready,
            "engine": describe_server(self.kind),
            "log": self.server.log_end() if self.server is not None else "",
            "holding": list(self._holding)[:1_000],
        }
        try:
            self._call("beat", body, tries=1)
        except StaleAttempt:
            self.stale = True
        except (GivenUp, ServerRefusal):
            return

    def _report_end(self, ending: str, message: str) -> None:
        self.say(f"{self.told.model}: {ending}. {message}")
        log = self.server.log_end() if self.server is not None else ""
        with contextlib.suppress(GivenUp, StaleAttempt):
            self._call("end", {"ending": ending, "message": message[:2_000], "log": log}, tries=5)

    def _call(self, path: str, body: dict[str, Any], **how: Any) -> dict[str, Any] | None:
        at = f"deployments/{quote(self.told.deployment, safe='')}/attempts/{self.told.attempt}"
        return self.client.call("POST", f"{at}/{path}", body, **how)
