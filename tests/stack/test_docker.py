"""What compose.yaml promises, read as data: no default secret, no capability where programs run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

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
    assert served == set(QUEUES)


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


def test_images_run_as_an_ordinary_user_and_leave_secrets_out():
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    for target in dockerfile.split("\nFROM ")[2:]:
        users = re.findall(r"^USER (\S+)", target, flags=re.MULTILINE)
        assert users == ["envarium"], target.splitlines()[0]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".git", ".envarium", ".env", "docker/.env", ".venv"} <= set(ignored)
