"""Servers of models as processes: the kind that this machine can run, its command line, and its readiness."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import httpx

from synthesis.errors import InfrastructureError
from training.job import SERVING_KEY, THREADS_WAIT
from training.lifeline import ALIVE
from training.worker import machine
from training.worker.child import ROOT, TOKEN, read_tail

VLLM = "ENVARIUM_VLLM"
"""The environment variable with vLLM's executable, if it is in an environment of its own."""
REPLY_BYTES = 4 * 1024 * 1024
LOG = "server.log"
LOG_BYTES = 8 * 1024
ServerKind = Literal["vllm", "transformers"]
_PARSERS = (("<function=", "qwen3_coder"), ("<tool_call>", "hermes"), ("<|python_tag|>", "llama3_json"),
            ("[TOOL_CALLS]", "mistral"))  # fmt: skip
"""vLLM's parser of calls by what the chat template says of them, the first that fits."""


@dataclass(frozen=True)
class ServerSettings:
    """Settings for serving a model's folder."""

    folder: Path
    context: int = 0
    at_once: int = 32
    memory_share: float = 0.85
    threads: int = 0


def find_vllm() -> str:
    """Return vLLM's executable: named by the environment, beside this Python, or on the path; empty if there is
    none.
    """
    named = os.environ.get(VLLM, "")
    beside = Path(sys.executable).with_name("vllm")
    return named or (str(beside) if beside.is_file() else shutil.which("vllm") or "")


def choose_server_kind(asked: str = "auto") -> ServerKind:
    """Return `vllm` if it is installed and a GPU exists, or if it is requested; else `transformers`."""
    if asked == "auto":
        return "vllm" if find_vllm() and machine.list_devices() else "transformers"
    return "vllm" if asked == "vllm" else "transformers"


def describe_server(kind: ServerKind) -> str:
    """Return the server's name and, if this Python has it, version."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return f"{kind} {metadata.version(kind)}"
    return kind


def build_command(kind: ServerKind, settings: ServerSettings, port: int) -> list[str]:
    """Return the command line. Raises InfrastructureError: vLLM is requested and not installed."""
    if kind == "transformers":
        command = [sys.executable, "-m", "training.chat_server", str(settings.folder), "--port", str(port)]
        command += ["--context", str(settings.context), "--at-once", str(settings.at_once)]
        return [*command, "--threads", str(settings.threads)]
    if not find_vllm():
        raise InfrastructureError(f"vLLM is not installed here: install it, or name its executable in {VLLM}.")
    command = [find_vllm(), "serve", str(settings.folder), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--served-model-name", "served", "--gpu-memory-utilization", str(settings.memory_share)]
    command += ["--max-num-seqs", str(settings.at_once)]
    if settings.context:
        command += ["--max-model-len", str(settings.context)]
    return command + _choose_parsers(_read_template(settings.folder))


def _choose_parsers(template: str) -> list[str]:
    parser = next((name for mark, name in _PARSERS if mark in template), "")
    options = ["--enable-auto-tool-choice", "--tool-call-parser", parser] if parser else []
    return [*options, *(["--reasoning-parser", "qwen3"] if "<think>" in template else [])]


def _read_template(folder: Path) -> str:
    """Return the chat template in the model's files."""
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return (folder / name).read_text(encoding="utf-8")
    return ""


class ModelServer:
    """A server as a process in a group of its own, which ends when the lock is free, and its HTTP client."""

    def __init__(self, kind: ServerKind, settings: ServerSettings, lock: Path, log: Path) -> None:
        self.kind, self.log, self.key = kind, log, secrets.token_urlsafe(24)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        guard = [sys.executable, "-m", "training.worker.serving.guard", str(lock)]
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [*guard, *build_command(kind, settings, self.port)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=log.parent,
                env=self._environment(settings),
                start_new_session=True,
            )
        limits = httpx.Limits(max_connections=None)
        self._http = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", timeout=httpx.Timeout(3_600.0, connect=5.0), trust_env=False,
            headers={"Authorization": f"Bearer {self.key}"}, limits=limits,
        )  # fmt: skip

    def _environment(self, settings: ServerSettings) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if name not in (TOKEN, ALIVE)}
        # All required files are in the folder, so the hub is not needed; telemetry is off.
        environment |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
        environment |= {"VLLM_API_KEY": self.key, SERVING_KEY: self.key}
        environment.setdefault(*THREADS_WAIT)
        if settings.threads:
            environment["OMP_NUM_THREADS"] = str(settings.threads)
        if self.kind == "vllm" and Path(find_vllm()).parent != Path(sys.executable).parent:
            environment.pop("PYTHONPATH")  # of another environment
        return environment

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def answers(self) -> bool:
        """Return whether it is ready."""
        try:
            return self._http.get("/health", timeout=5.0).status_code == 200
        except httpx.HTTPError:
            return False

    def ask(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return (status, body) of its answer; 503 if it gave none."""
        name = str(body.get("model", ""))
        try:
            with self._http.stream("POST", "/v1/chat/completions", json=body | {"model": "served"}) as reply:
                text = bytearray()
                for chunk in reply.iter_bytes():
                    text += chunk
                    if len(text) > REPLY_BYTES:
                        return 502, _build_failure(f"The model's reply has more than {REPLY_BYTES:,} bytes.")
                status = reply.status_code
            answer_body = httpx.Response(200, content=bytes(text)).json()
        except (httpx.HTTPError, ValueError):
            return 503, _build_failure("The model's server was lost before it had answered. Ask again in a while.")
        if not isinstance(answer_body, dict):
            return 502, _build_failure("The model's server answered with something that is no object.")
        if status in (401, 403, 404) or not (status == 200 or 400 <= status <= 599):
            return 502, _build_failure(f"The model's server answered with the status {status}.")
        return status, answer_body | ({"model": name} if status == 200 else {})

    def log_end(self) -> str:
        """Return the end of its output."""
        return read_tail(self.log, LOG_BYTES).decode("utf-8", "replace").replace("\0", "\ufffd")

    def describe_end(self) -> str:
        """Return the last line of its output, and how it ended."""
        code = self.process.poll()
        lines = [line.strip() for line in self.log_end().splitlines() if line.strip()]
        ended = (
            f"The server ended by signal {-code}." if code is not None and code < 0 else f"The server ended ({code})."
        )
        return f"{ended} {lines[-1][:1_000]}" if lines else ended

    def end(self) -> None:
        """End it with all its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._http.close()


def _build_failure(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "code": "model_away", "param": None, "type": "server_error"}}
