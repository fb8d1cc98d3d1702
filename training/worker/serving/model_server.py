"""Servers of models as processes: which one this machine can run, its command line, whether it answers yet."""

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
from training.worker.child import ROOT, TOKEN, tail

VLLM = "ENVARIUM_VLLM"
"""The environment variable with vLLM's executable, where it stands in an environment of its own."""
REPLY_BYTES = 4 * 1024 * 1024
LOG = "server.log"
LOG_BYTES = 8 * 1024
ServerKind = Literal["vllm", "transformers"]
_PARSERS = (("<function=", "qwen3_coder"), ("<tool_call>", "hermes"), ("<|python_tag|>", "llama3_json"),
            ("[TOOL_CALLS]", "mistral"))  # fmt: skip
"""vLLM's parser of calls by what the chat template says of them, the first that fits."""


@dataclass(frozen=True)
class ServerSettings:
    """How a folder with a model is served."""

    folder: Path
    context: int = 0
    at_once: int = 32
    memory_share: float = 0.85
    threads: int = 0


def vllm_path() -> str:
    """vLLM's executable: named by the environment, beside this Python, or on the path; empty where there is none."""
    named = os.environ.get(VLLM, "")
    beside = Path(sys.executable).with_name("vllm")
    return named or (str(beside) if beside.is_file() else shutil.which("vllm") or "")


def kind_here(asked: str = "auto") -> ServerKind:
    """vLLM where it is installed and a GPU is there, or where it is asked for; else transformers."""
    if asked == "auto":
        return "vllm" if vllm_path() and machine.devices() else "transformers"
    return "vllm" if asked == "vllm" else "transformers"


def said(kind: ServerKind) -> str:
    """The server's name and, where this Python has it, version."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return f"{kind} {metadata.version(kind)}"
    return kind


def command_of(kind: ServerKind, settings: ServerSettings, port: int) -> list[str]:
    """The command line. Raises InfrastructureError: vLLM is asked for and not here."""
    if kind == "transformers":
        command = [sys.executable, "-m", "training.chat_server", str(settings.folder), "--port", str(port)]
        command += ["--context", str(settings.context), "--at-once", str(settings.at_once)]
        return [*command, "--threads", str(settings.threads)]
    if not vllm_path():
        raise InfrastructureError(f"vLLM is not installed here: install it, or name its executable in {VLLM}.")
    command = [vllm_path(), "serve", str(settings.folder), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--served-model-name", "served", "--gpu-memory-utilization", str(settings.memory_share)]
    command += ["--max-num-seqs", str(settings.at_once)]
    if settings.context:
        command += ["--max-model-len", str(settings.context)]
    return command + _parsers(_template(settings.folder))


def _parsers(template: str) -> list[str]:
    parser = next((name for mark, name in _PARSERS if mark in template), "")
    options = ["--enable-auto-tool-choice", "--tool-call-parser", parser] if parser else []
    return [*options, *(["--reasoning-parser", "qwen3"] if "<think>" in template else [])]


def _template(folder: Path) -> str:
    """The chat template as the model's files hold it."""
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
                [*guard, *command_of(kind, settings, self.port)],
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
        kept = {name: value for name, value in os.environ.items() if name not in (TOKEN, ALIVE)}
        # All that it needs lies in the folder, and what it does is nobody's business.
        kept |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
        kept |= {"VLLM_API_KEY": self.key, SERVING_KEY: self.key}
        kept.setdefault(*THREADS_WAIT)
        if settings.threads:
            kept["OMP_NUM_THREADS"] = str(settings.threads)
        if self.kind == "vllm" and Path(vllm_path()).parent != Path(sys.executable).parent:
            kept.pop("PYTHONPATH")  # of another environment
        return kept

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def answers(self) -> bool:
        """Whether it is ready."""
        try:
            return self._http.get("/health", timeout=5.0).status_code == 200
        except httpx.HTTPError:
            return False

    def ask(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """(status, body) of its answer; 503 where it gave none."""
        name = str(body.get("model", ""))
        try:
            with self._http.stream("POST", "/v1/chat/completions", json=body | {"model": "served"}) as reply:
                text = bytearray()
                for chunk in reply.iter_bytes():
                    text += chunk
                    if len(text) > REPLY_BYTES:
                        return 502, _failure(f"The model's reply has more than {REPLY_BYTES:,} bytes.")
                status = reply.status_code
            told = httpx.Response(200, content=bytes(text)).json()
        except (httpx.HTTPError, ValueError):
            return 503, _failure("The model's server was lost before it had answered. Ask again in a while.")
        if not isinstance(told, dict):
            return 502, _failure("The model's server answered with something that is no object.")
        if status in (401, 403, 404) or not (status == 200 or 400 <= status <= 599):
            return 502, _failure(f"The model's server answered with the status {status}.")
        return status, told | ({"model": name} if status == 200 else {})

    def log_end(self) -> str:
        """The end of what it printed."""
        return tail(self.log, LOG_BYTES).decode("utf-8", "replace").replace("\0", "\ufffd")

    def why_ended(self) -> str:
        """The last thing that it said, or how it ended."""
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


def _failure(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "code": "model_away", "param": None, "type": "server_error"}}
