"""Installing what training needs: a real pip on wheels made here, its last line shown, its failures in words."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.runs.wheels import installed, make_venv, write_wheel
from webapp.jobs.claims import Cancelled
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job, JobState
from webapp.jobs.services import cancel_job, claim_job
from webapp.runs.local import installation
from webapp.runs.local.pip import LINE_CHARS, InstallError, format_failure, run_pip
from webapp.stack import install as setup

SLOW = """
import time
from setuptools import setup
time.sleep(600)
setup(name="slow")
"""


def with_pip(test: Callable[..., None]) -> Callable[..., None]:
    """For tests in an environment that takes seconds to make: in one of pytest-xdist's workers."""
    return pytest.mark.slow(pytest.mark.xdist_group("pip")(test))


@pytest.fixture(scope="module")
def venv_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_venv(tmp_path_factory.mktemp("venv"))


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A folder of wheels that pip takes everything from."""
    return tmp_path


def offline(shelf: Path, *wanted: str) -> list[str]:
    return ["--isolated", "--no-index", "--find-links", str(shelf), *wanted]


def quiet(line: str) -> None:
    return None


@with_pip
def test_packages_go_in_and_the_last_line_is_told_meanwhile(venv_python: str, shelf: Path) -> None:
    write_wheel(shelf, "heavy", needs=("light-one", "light-two"))
    write_wheel(shelf, "light-one")
    write_wheel(shelf, "light-two")
    told: list[str] = []
    last = run_pip(offline(shelf, "heavy"), told.append, venv_python)
    assert {"heavy", "light-one", "light-two"} <= set(installed(venv_python))
    assert last == told[-1] == "Successfully installed heavy-1.0 light-one-1.0 light-two-1.0"
    assert any(text.startswith("Processing") for text in told)


def test_a_line_is_bounded_and_what_it_hides_is_visible(shelf: Path) -> None:
    """Whatever stands in for pip here: a build may print anything."""
    fake = shelf / "python"
    fake.write_text("#!/bin/sh\nprintf 'Building \\033[31m\\000red\\n'\nprintf '%0999d\\n' 7\nsleep 1\n")
    fake.chmod(0o700)
    told: list[str] = []
    assert len(run_pip([], told.append, str(fake))) == LINE_CHARS
    assert told[0] == r"Building \x1b[31m\x00red"
    assert told.count(told[-1]) > 1, "while pip is silent its last line is told again"


@with_pip
def test_a_constraint_keeps_what_is_here_and_says_so(venv_python: str, shelf: Path) -> None:
    write_wheel(shelf, "kept", "1.0")
    run_pip(offline(shelf, "kept"), quiet, venv_python)
    write_wheel(shelf, "kept", "2.0")
    write_wheel(shelf, "greedy", needs=("kept>=2",))
    kept = shelf / "constraints.txt"
    kept.write_text("kept==1.0\n")
    with pytest.raises(InstallError, match="conflict with the installed ones"):
        run_pip([*offline(shelf, "greedy"), "--constraint", str(kept)], quiet, venv_python)
    assert installed(venv_python)["kept"] == "1.0"
    assert "greedy" not in installed(venv_python)


@with_pip
def test_what_the_watcher_raises_ends_pip_with_all_that_it_started(venv_python: str, shelf: Path) -> None:
    folder = shelf / "slow"
    folder.mkdir()
    (folder / "setup.py").write_text(SLOW)

    def stop(line: str) -> None:
        if _building(str(folder)):
            raise Cancelled("enough")

    with pytest.raises(Cancelled):
        run_pip(["--isolated", "--no-index", "--no-build-isolation", str(folder)], stop, venv_python)
    assert not _building(str(folder))


def _building(folder: str) -> list[psutil.Process]:
    """Processes that build in this folder, whoever started them."""
    found = []
    for one in psutil.process_iter():
        try:
            if one.pid != os.getpid() and one.cwd().startswith(folder) and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"], "disk is full"),
        (["WARNING: Retrying: NewConnectionError('Temporary failure in name resolution')", "ERROR: x"], "network"),
        (["ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied"], "cannot be written"),
        (["ERROR: No matching distribution found for torch==2.13.0"], "not to be had for this Python"),
        (["something else"], "status 1"),
    ],
)
def test_failures_are_told_in_words_with_what_to_do(lines: list[str], expected: str) -> None:
    assert expected in format_failure(lines, 1)


@with_pip
@pytest.mark.parametrize("changed", [False, True], ids=["pinned", "changed"])
def test_a_file_that_is_not_the_pinned_one_is_refused_in_words(venv_python: str, shelf: Path, changed: bool) -> None:
    """The set-up and the site say the same of it, out of what a real pip says."""
    name = "swapped" if changed else "trusted"
    wheel = write_wheel(shelf, name)
    seen = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if changed:
        write_wheel(shelf, name, files={f"{name}.py": "STOLEN = True\n"})
    wanted = shelf / "pinned.txt"
    wanted.write_text(f"{name}==1.0 \\\n    --hash=sha256:{seen}\n")
    arguments = [*offline(shelf), *setup.HASHED, "--requirement", str(wanted)]
    if not changed:
        run_pip(arguments, quiet, venv_python)
    else:
        with pytest.raises(InstallError, match=r"(?s)swapped==1\.0: the file that came is not.*Nothing of it ran"):
            run_pip(arguments, quiet, venv_python)
    assert (name in installed(venv_python)) is not changed


@with_pip
def test_the_set_up_installs_pins_and_ends_with_what_to_do_where_a_file_is_another(
    venv_python: str, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = write_wheel(shelf, "light")
    entry = "# for: web\nlight==1.0 \\\n    --hash=sha256:{}\n# for: train\nheavy==1.0 \\\n    --hash=sha256:00\n"
    monkeypatch.setattr(setup, "PYTHON", Path(venv_python))
    monkeypatch.setattr(setup, "LOCK", shelf / "requirements.lock")
    monkeypatch.setattr(setup, "HASHED", (*offline(shelf), *setup.HASHED))
    setup.LOCK.write_text(entry.format("0" * 64))
    with pytest.raises(SystemExit, match=r"light==1\.0: the file that came is not"):
        setup.install_extras({"web"})
    setup.LOCK.write_text(entry.format(hashlib.sha256(wheel.read_bytes()).hexdigest()))
    setup.install_extras({"web"})
    assert "light" in installed(venv_python)


@with_pip
def test_a_failure_of_a_real_pip_names_what_is_missing(venv_python: str, shelf: Path) -> None:
    with pytest.raises(InstallError, match=r"not to be had for this Python.*nowhere-to-be-found"):
        run_pip(offline(shelf, "nowhere-to-be-found"), quiet, venv_python)


def test_the_pin_of_torch_is_one_that_training_takes() -> None:
    wanted = {one.name: one.specifier for one in installation.read_requirements()}
    name, _, version = setup.TORCH.partition("==")
    assert wanted[name].contains(version)


def test_constraints_hold_what_the_site_runs_on_and_leave_training_free() -> None:
    held = dict(line.split("==") for line in installation.build_constraints().splitlines())
    assert {"django", "httpx", "openai", "celery", "numpy", "pyarrow"} <= set(held)
    assert {"psycopg-binary", "psycopg-pool", "pydantic-core", "kombu"} <= set(held), "with what those need"
    assert not {"torch", "trl", "transformers", "envarium", "pip", "setuptools"} & set(held)


def test_training_takes_its_pins_but_for_what_the_site_runs_on() -> None:
    wanted = {pin.partition("==")[0]: pin for pin in installation.list_wanted_pins()}
    assert {"trl", "transformers", "sympy"} <= set(wanted)
    assert not {"torch", "httpx", "numpy", "pyarrow", "pydantic-core", "django", "pytest"} & set(wanted)
    assert all("--hash=sha256:" in pin for pin in wanted.values())


def test_a_torch_index_that_does_not_answer_is_left_out() -> None:
    assert setup.build_torch_options("http://127.0.0.1:9/nothing") == []
    assert setup.build_torch_options("none") == []


@pytest.fixture
def nothing_here(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """As on a fresh installation, whatever this machine has."""
    monkeypatch.setattr(installation, "list_missing_requirements", lambda: ["torch>=2.13"])
    return lambda: monkeypatch.undo()


@pytest.mark.django_db
def test_it_is_queued_once_and_not_again_after_a_person_stopped_it(nothing_here: Any) -> None:
    first = installation.start_installation_once()
    assert first is not None
    assert installation.start_installation_once() is None
    assert installation.get_installation_state().kind == "waiting"
    cancel_job(first.pk)
    assert installation.get_installation_state().kind == "cancelled"
    assert installation.start_installation_once() is None
    again = installation.start_installation(None)
    Job.objects.filter(pk=again.pk).update(state=JobState.FAILED, error="The disk is full.")
    assert installation.get_installation_state().kind == "failed"
    assert installation.start_installation_once() is not None
    assert Job.objects.filter(kind=installation.KIND).count() == 3


@pytest.mark.django_db
def test_where_all_is_here_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "list_missing_requirements", lambda: [])
    assert installation.get_installation_state().kind == "ready"
    assert installation.start_installation_once() is None


@pytest.mark.django_db
def test_it_is_off_where_the_installation_says_so(nothing_here: Any, settings: Any) -> None:
    settings.TRAINING = False
    assert installation.get_installation_state().kind == "elsewhere"
    assert installation.start_installation_once() is None
    nothing_here()
    assert installation.get_installation_state().kind == "elsewhere", (
        "whatever is installed, no worker starts beside the site"
    )


@pytest.mark.django_db
def test_a_short_disk_is_said_before_anything_is_fetched(nothing_here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "NEEDED_MIB", {False: 10**9, True: 10**9})
    job = installation.start_installation(None)
    held = claim_job(job.pk, "test")
    assert held is not None
    with pytest.raises(InstallError, match="Make room"):
        installation.install_training(JobContext.of(held))


def test_halves_of_an_installation_that_was_killed_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, whole in (("half", False), ("whole", True)):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        if whole:
            (folder / "INSTALLER").write_text("pip\n")
    monkeypatch.setattr(installation, "_list_install_folders", lambda: [str(tmp_path)])
    assert installation.remove_incomplete_packages() == 1
    assert [path.name for path in tmp_path.iterdir()] == ["whole-1.0.dist-info"]
