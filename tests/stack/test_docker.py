"""What compose.yaml promises, read as data: no default secret, no capability where programs run."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from docker.digests import IMAGES
from docker.install_vllm import LOCK, WHERE
from training.worker.child import TOKEN
from training.worker.loop import _build_parser as worker_arguments
from training.worker.serving.model_server import VLLM
from webapp.celery import QUEUES
from webapp.jobs.registry import KINDS
from webapp.stack.install import TORCH
from webapp.stack.web_processes import build_server_config

ROOT = Path(__file__).resolve().parent.parent.parent
COMPOSE = (ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE)["services"]
OURS = [name for name in SERVICES if name not in {"postgres", "valkey"}]
SECRETS = ("ENVARIUM_SECRET_KEY", "ENVARIUM_DATABASE_PASSWORD", "ENVARIUM_BROKER_PASSWORD")


def test_every_process_of_a_running_installation_is_there():
    assert {"postgres", "valkey", "migrate", "web", "worker-llm", "worker-sandbox", "beat", "worker-gpu"} == set(
        SERVICES
    )
    commands = [service.get("command", []) for service in SERVICES.values()]
    served = {command[command.index("-Q") + 1] for command in commands if "-Q" in command}
    # The queue `gpu` wakes a worker beside the site; in containers GPU workers ask the site for work by themselves.
    assert served == set(QUEUES) - {"gpu"}


@pytest.mark.parametrize("name", OURS)
def test_what_may_run_programs_has_no_rights(name):
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    assert "privileged" not in service
    assert any(mount.startswith("/tmp") for mount in service["tmpfs"])


def test_no_secret_has_a_default():
    for name in SECRETS:
        uses = re.findall(r"\$\{" + name + r"([^}]*)\}", COMPOSE)
        assert uses, name
        assert all(use.startswith(":?") and len(use) > 10 for use in uses), name


def test_every_password_is_one_of_those_secrets():
    for line in COMPOSE.splitlines():
        if re.match(r"\s*\w*(PASSWORD|SECRET|KEY)\w*:", line):
            assert re.search(r"\$\{\w+:[?-]\w*", line), line
            assert ":?" in line or line.rstrip().endswith(':-}"'), line


def test_only_the_site_is_published_and_only_on_this_machine():
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert list(published) == ["web"]
    assert all(port.startswith("127.0.0.1:") for port in published["web"])


def test_the_gpu_worker_is_asked_for_by_profile_and_reserves_devices():
    gpu = SERVICES["worker-gpu"]
    assert gpu["profiles"] == ["gpu"]
    devices = gpu["deploy"]["resources"]["reservations"]["devices"]
    assert devices[0]["capabilities"] == ["gpu"]


def test_the_gpu_worker_is_told_an_address_and_a_token_and_nothing_else():
    gpu = SERVICES["worker-gpu"]
    assert set(gpu["environment"]) == {TOKEN}
    assert gpu["volumes"] == ["work:/data"]
    assert list(gpu["depends_on"]) == ["web"]
    command = gpu["command"]
    assert command[:3] == ["python", "-m", "training.worker"]
    given = worker_arguments().parse_args(command[3:])
    assert str(given.home) == "/data"
    host = urlsplit(given.url).hostname
    assert host in SERVICES
    assert SERVICES["web"]["environment"]["ENVARIUM_ALLOWED_HOSTS"].endswith(f",{host}")


def test_the_image_of_the_gpu_worker_holds_what_training_needs_with_cuda():
    target = DOCKERFILE.split("\nFROM base AS gpu")[1]
    assert "RUN ENVARIUM_TORCH_INDEX=none python webapp/stack/install.py train" in target.splitlines()
    assert {"COPY synthesis synthesis", "COPY training training"} <= set(target.splitlines())
    assert "RUN python docker/install_vllm.py" in target.splitlines()
    assert f"ENV {VLLM}={WHERE}/bin/vllm " in target
    assert json.loads(re.findall(r"^CMD (.*)$", target, flags=re.MULTILINE)[0]) == SERVICES["worker-gpu"]["command"]


def test_the_vllm_of_the_image_is_one_that_trl_goes_with_and_has_torch_as_the_trainer_has():
    try:
        [named] = [line for line in metadata.requires("trl") or () if line.startswith("vllm")]
    except metadata.PackageNotFoundError:
        pytest.skip("the extra train is not installed")
    pins = dict(re.findall(r"^([a-z0-9-]+)==(\S+) ", LOCK.read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert SpecifierSet(re.findall(r"vllm([^;]+)", named)[0]).contains(pins["vllm"])
    assert f"torch=={pins['torch']}" == TORCH


def test_the_site_believes_no_header_of_a_proxy_by_uvicorn():
    target = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8").split("\nFROM base AS ")[1]
    command = json.loads(re.findall(r"^CMD (.*)$", target, flags=re.MULTILINE)[0])
    assert command[:3] == ["python", "-m", "webapp.stack.web_processes"]
    config = build_server_config("0.0.0.0", 8000, 5)
    assert (config.app, config.proxy_headers) == ("webapp.asgi:application", False)


def test_images_hold_nothing_but_what_is_pinned():
    copied = re.findall(r"^COPY (.+) \S+$", DOCKERFILE.split("\nFROM base AS app")[0], flags=re.MULTILINE)
    assert {"requirements.lock", "webapp/stack/install.py"} <= {name for line in copied for name in line.split()}
    assert not re.search(r"\b(?:pip|apt-get|curl|wget)\b\s+\w", DOCKERFILE)


def test_images_come_by_digest():
    """A name without one may mean another image tomorrow. Where none is told, nothing starts, with words."""
    base = re.findall(r"^FROM (\S+)", DOCKERFILE, flags=re.MULTILINE)
    assert base[0] == "${PYTHON_IMAGE}"
    assert set(base[1:]) == {"base"}
    assert "\nARG PYTHON_IMAGE\n" in DOCKERFILE, "without a default"
    foreign = {name: service["image"] for name, service in SERVICES.items() if "build" not in service}
    foreign |= {
        f"{name}'s base": one["build"]["args"]["PYTHON_IMAGE"] for name, one in SERVICES.items() if "build" in one
    }
    for name, image in foreign.items():
        asked = re.fullmatch(r"\$\{(\w+):\?run make images.*\}", image)
        assert asked, name
        assert asked[1] in IMAGES, name


def test_digests_are_written_beside_the_settings_that_are_there(tmp_path, docker):
    settings = tmp_path / ".env"
    settings.write_text("ENVARIUM_SECRET_KEY=kept\nENVARIUM_VALKEY_IMAGE=valkey/valkey:9@sha256:old\n")
    done = docker('echo "{\\"digest\\": \\"sha256:$(printf %064d ${#4})\\"}"')
    assert done.returncode == 0, done.stderr
    lines = settings.read_text().splitlines()
    assert lines[0] == "ENVARIUM_SECRET_KEY=kept"
    assert lines[1:] == [f"{name}={image}@sha256:{len(image):064d}" for name, image in IMAGES.items()]
    assert settings.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("answer", ["echo '{}'", "echo no such host >&2; exit 1"])
def test_without_a_digest_nothing_is_written(tmp_path, docker, answer):
    done = docker(answer)
    assert done.returncode == 1
    assert "does not say what python:3.12-slim is; nothing was written" in done.stderr
    assert not (tmp_path / ".env").exists()


@pytest.fixture
def docker(tmp_path):
    """Runs docker/digests.py with a `docker` that answers as told: no registry is asked."""

    def run(answer: str) -> subprocess.CompletedProcess[str]:
        program = tmp_path / "bin" / "docker"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{answer}\n")
        program.chmod(0o700)
        path = f"{program.parent}:{os.environ['PATH']}"
        command = [sys.executable, str(ROOT / "docker" / "digests.py"), str(tmp_path / ".env")]
        return subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)

    return run


def test_every_service_has_a_limit_of_memory_and_a_root_that_is_only_read():
    for name, service in SERVICES.items():
        assert service["mem_limit"] == service["memswap_limit"], name
        assert service["pids_limit"] > 0, name
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_only_the_site_and_what_asks_models_reach_outside():
    networks = yaml.safe_load(COMPOSE)["networks"]
    assert networks["inside"] == {"internal": True}
    assert {name for name, one in SERVICES.items() if "outside" in one["networks"]} == {"web", "worker-llm"}
    assert SERVICES["worker-sandbox"]["networks"] == ["inside"]
    assert SERVICES["worker-gpu"]["networks"] == ["workers"]
    assert {name for name, one in SERVICES.items() if "workers" in one["networks"]} == {"web", "worker-gpu"}


def test_no_job_of_the_queue_without_a_way_out_asks_an_endpoint():
    """What connects to endpoints is imported by name; a kind whose module does so is on the queue `llm`."""
    shut = [kind for kind in KINDS.values() if kind.queue == "sandbox"]
    assert len(shut) > 5
    for kind in shut:
        names = kind.handler.__globals__
        called = [names[name] for name in inspect.unwrap(kind.handler).__code__.co_names if name in names]
        rooms = {getattr(one, "__module__", "") for one in called if inspect.isfunction(one)}
        asking = [room for room in rooms if re.search("webapp.endpoints.services import", _source(room))]
        assert not asking, f"{kind.name} asks an endpoint"


def _source(module: str) -> str:
    return inspect.getsource(sys.modules[module])


def test_images_run_as_an_ordinary_user_and_leave_secrets_out():
    for target in DOCKERFILE.split("\nFROM ")[2:]:
        users = re.findall(r"^USER (\S+)", target, flags=re.MULTILINE)
        assert users == ["envarium"], target.splitlines()[0]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".git", ".envarium", ".env", "docker/.env", ".venv"} <= set(ignored)
