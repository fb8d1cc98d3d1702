"""HTTP client of a worker for the web app: patient with an unreachable server, strict with its replies. No torch.

The token is used only in the request's header, never printed or stored, and sent to one origin only.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

import httpx

from synthesis.errors import InfrastructureError, InputError

API = "/api/v1/training"
REPLY_BYTES = 8 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024
WAITS_S = (0.5, 60.0)
"""The first and the longest pause between two tries."""
AGAIN = {408, 425, 429, 500, 502, 503, 504}
DAMAGED = 3
"""So often is a file fetched whose hash is wrong."""


class ServerRefusal(InfrastructureError):
    """The server understood the request and refused it. `data` is its reply."""

    def __init__(self, status: int, code: str, message: str, data: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status, self.code, self.data = status, code, data


class StaleAttempt(ServerRefusal):
    """The job continued without this worker: data of this attempt no longer counts."""


class Unauthorised(ServerRefusal):
    """The token is unknown, was revoked, or has not the scope `worker`."""


class GivenUp(InfrastructureError):
    """The worker was asked to end while the server was unreachable, or all tries failed."""


class Client:
    """Client of one server. `given_up` is called between two tries; `say` gets a message when it has to wait.

    Any number of threads may use it.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        given_up: Callable[[], bool] = lambda: False,
        say: Callable[[str], None] = lambda line: None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise InputError(f"--url: {url!r} is no address; give one like https://envarium.example.org")
        self.base = url.rstrip("/").removesuffix("/api/v1") + API
        self._given_up, self._say = given_up, say
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {token}", "User-Agent": "envarium-worker"},
            timeout=httpx.Timeout(30.0, connect=10.0),
            transport=transport,
        )

    def __repr__(self) -> str:
        return f"Client({self.base})"

    def close(self) -> None:
        self._http.close()

    def own(self, url: str) -> str:
        """Return an address that the server named, at the origin that this client was given: no other origin gets the
        token, and a server behind a proxy may know itself under another name.
        """
        ours, theirs = urlsplit(self.base), urlsplit(urljoin(self.base + "/", url))
        return urlunsplit((ours.scheme, ours.netloc, theirs.path, theirs.query, ""))

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str | int] | None = None,
        wait_s: float = 0.0,
        tries: int | None = None,
        given_up: Callable[[], bool] | None = None,
    ) -> dict[str, Any] | None:
        """Return the reply's object, or None for 204. Retries until the server answers, or `tries` times.

        Raises StaleAttempt, Unauthorised, ServerRefusal (the server's reply), GivenUp.
        """
        request_headers = dict(headers or {})
        if body is not None:
            content, request_headers["Content-Type"] = json.dumps(body, allow_nan=False).encode(), "application/json"
        timeout = httpx.Timeout(30.0 + wait_s, connect=10.0)

        def send_request() -> dict[str, Any] | None:
            request = self._http.build_request(
                method, f"{self.base}/{path}", content=content, headers=request_headers, params=params, timeout=timeout
            )
            return self._read(request)

        return self._retry_patiently(send_request, f"{method} {path}", tries, given_up or self._given_up)

    def fetch(self, url: str, to: Path, size: int, sha256: str, given_up: Callable[[], bool] | None = None) -> None:
        """Fetch a file whose size and hash are known, resuming a partial download of an earlier try.

        Raises as `call`, and InfrastructureError: the disk is full, or the file is damaged each time.
        """
        address = self.own(url)
        part = to.with_name(to.name + ".part")
        over = given_up or self._given_up
        for _ in range(DAMAGED):
            self._retry_patiently(
                lambda: self._fetch_rest(address, part, size, over), f"download of {to.name}", None, over
            )
            if hash_file(part) == sha256:
                part.replace(to)
                return
            part.unlink()
        raise InfrastructureError(f"{to.name}: came with another hash than the server named, {DAMAGED} times; is the "
                                  "file at the server damaged?")  # fmt: skip

    def _fetch_rest(self, address: str, part: Path, size: int, given_up: Callable[[], bool]) -> None:
        with translate_full_disk(part), part.open("ab") as file:
            have = file.tell()
            if have > size:
                file.truncate(0)
                have = 0
            if have == size:
                return
            headers = {"Range": f"bytes={have}-"} if have else {}
            with self._http.stream("GET", address, headers=headers) as reply:
                if reply.status_code not in (200, 206):
                    _raise_refusal(reply, _read_bounded(reply))
                if have and reply.status_code == 200:
                    file.truncate(0)
                    have = 0
                for chunk in reply.iter_bytes(CHUNK_BYTES):
                    have += len(chunk)
                    if have > size:
                        raise ServerRefusal(0, "too_large", f"{part.stem}: has more than its {size} bytes", {})
                    file.write(chunk)
                    if given_up():
                        raise GivenUp(f"download of {part.stem}: asked to end")
            if have < size:
                raise httpx.RemoteProtocolError("the file ended early")

    def _read(self, request: httpx.Request) -> dict[str, Any] | None:
        reply = self._http.send(request, stream=True)
        try:
            text = _read_bounded(reply)
        finally:
            reply.close()
        if reply.status_code == 204:
            return None
        if not reply.is_success:
            _raise_refusal(reply, text)
        body = json.loads(text)
        if not isinstance(body, dict):
            raise ValueError("no object")
        return body

    def _retry_patiently(
        self, once: Callable[[], Any], what: str, tries: int | None, given_up: Callable[[], bool]
    ) -> Any:
        number, (wait, longest) = 0, WAITS_S
        while True:
            number += 1
            try:
                return once()
            except (httpx.HTTPError, ValueError) as error:
                reason, asked_pause = f"{type(error).__name__}: {error}", 0.0
            except ServerRefusal as error:
                if error.status not in AGAIN:
                    raise
                reason, asked_pause = f"status {error.status}: {error}", _parse_retry_after(error)
            if tries is not None and number >= tries:
                raise GivenUp(f"{what}: no answer ({reason[:300]})")
            # Without the random factor all workers would retry at the same moment.
            pause, wait = max(wait * random.uniform(0.75, 1.25), asked_pause), min(wait * 2, longest)
            self._say(f"{what}: no answer ({reason[:300]}); again in {pause:.0f} s")
            until = time.monotonic() + pause
            while time.monotonic() < until:
                if given_up():
                    raise GivenUp(f"{what}: asked to end while the server was away")
                time.sleep(0.2)


def build_attempt_path(job: str, attempt: int, rest: str) -> str:
    """Return the address of a part of an attempt."""
    return f"jobs/{quote(job, safe='')}/attempts/{attempt}/{rest}"


def hash_file(path: Path) -> str:
    """Return a file's SHA-256, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def translate_full_disk(path: Path) -> Iterator[None]:
    """Translate a full disk into InfrastructureError with a message."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InfrastructureError(
                f"The worker's disk is full ({path.parent}): free some space there, then resume."
            ) from error
        raise


def _read_bounded(reply: httpx.Response) -> bytes:
    text = bytearray()
    for chunk in reply.iter_bytes(CHUNK_BYTES):
        text += chunk
        if len(text) > REPLY_BYTES:
            raise ServerRefusal(0, "too_large", f"the server's reply has more than {REPLY_BYTES} bytes", {})
    return bytes(text)


def _raise_refusal(reply: httpx.Response, text: bytes) -> None:
    try:
        data = json.loads(text)
    except ValueError:
        data = {}
    data = data if isinstance(data, dict) else {}
    error = data.get("error") if isinstance(data.get("error"), dict) else {}
    code = str((error or {}).get("code") or data.get("code") or "")[:60]
    message = str(data.get("detail") or (error or {}).get("message") or f"status {reply.status_code}")[:1_000]
    if asked_pause := reply.headers.get("Retry-After"):
        data = {**data, "retry_after": asked_pause}
    if 300 <= reply.status_code < 400:
        message = f"the server answers with a redirect to {reply.headers.get('Location', '?')[:200]}; name that address"
    kind = ServerRefusal
    if code == "stale_attempt":
        kind = StaleAttempt
    elif reply.status_code in (401, 403):
        kind = Unauthorised
    raise kind(reply.status_code, code, message, data)


def _parse_retry_after(error: ServerRefusal) -> float:
    try:
        return min(max(float(error.data.get("retry_after", 0)), 0.0), 600.0)
    except (TypeError, ValueError):
        return 0.0
