"""What compose.yaml promises, read as data: no default secret, no capability where programs run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from training.worker.child import TOKEN
from training.worker.loop import _arguments as worker_arguments
from webapp.celery import QUEUES

ROOT = Path(__file__).resolve().parent.parent.parent
COMPOSE = (ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8")
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


def test_the_image_of_the_gpu_worker_holds_what_training_needs_torch_first():
    target = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8").split("\nFROM base AS gpu")[1]
    assert target.index("import TORCH") < target.index(".[train]")
    assert {"COPY synthesis synthesis", "COPY training training"} <= set(target.splitlines())
    assert json.loads(re.findall(r"^CMD (.*)$", target, flags=re.MULTILINE)[0]) == SERVICES["worker-gpu"]["command"]


def test_the_site_believes_no_header_of_a_proxy_by_uvicorn():
    target = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8").split("\nFROM base AS ")[1]
    command = json.loads(re.findall(r"^CMD ((?:.*\\\n)*.*)$", target, flags=re.MULTILINE)[0].replace("\\\n", ""))
    assert {"webapp.asgi:application", "--no-proxy-headers"} <= set(command)


def test_images_run_as_an_ordinary_user_and_leave_secrets_out():
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    for target in dockerfile.split("\nFROM ")[2:]:
        users = re.findall(r"^USER (\S+)", target, flags=re.MULTILINE)
        assert users == ["envarium"], target.splitlines()[0]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".git", ".envarium", ".env", "docker/.env", ".venv"} <= set(ignored)
