"""One PostgreSQL and one Valkey a session, a database a pytest-xdist worker, and real processes on request."""

from __future__ import annotations

import gc
import importlib
import os
import re
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.servers import TestServers, point_settings_at_servers

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from synthesis.runtime import Sandbox
    from tests.fixtures.installation import Installation

SERVERS = TestServers()
SET_APART = {"slow", "kill", "browser"}
"""Marks of tests that `make test` leaves out."""
LONGEST = (
    "test_readme.py",
    "test_training_kill.py",
    "test_kill_stack.py",
    "test_worker_end_to_end.py",
    "test_lists.py",
    "test_every_page.py",
)
"""Modules with tests of a minute and more, the longest first."""
TOGETHER = {"worker_process": "processes", "site_process": "processes"}
"""Fixtures that take seconds, with the group of the quick tests that ask for one: they run in one of pytest-xdist's
workers, which makes it once. No long test asks for `worker_process`, which would take other workers' jobs."""
HOME = tempfile.TemporaryDirectory(prefix="envarium-test-home-", ignore_cleanup_errors=True)
"""Files that tests write (uploads, blobs) stay out of the checkout. Each pytest-xdist worker has its own."""


def pytest_configure(config: pytest.Config) -> None:
    """Runs before pytest-django sets Django up, which is why pyproject.toml names no settings module."""
    if "webapp.settings" in sys.modules:
        raise pytest.UsageError("Unset DJANGO_SETTINGS_MODULE: the tests bring their own database.")
    # pytest-xdist's workers must name the same tests, also where a name holds a set's text.
    os.environ.setdefault("PYTHONHASHSEED", str(secrets.randbelow(2**32)))
    # Before torch is loaded: two of pytest's workers share the cores, and its threads would spin while they wait.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    gc.disable()  # until all modules are loaded
    SERVERS.start()
    # Before the settings: the storage of uploads is made of them once, by the first module that asks for it.
    os.environ["ENVARIUM_HOME"] = HOME.name
    point_settings_at_servers(os.environ.get("PYTEST_XDIST_WORKER", ""))
    from django.conf import settings

    assert os.environ["DATABASE_URL"] == settings.DATABASE_URL  # the access loads them, for pytest-django
    # Most tests make people, and each password took a third of a second.
    settings.PASSWORD_HASHERS = ["tests.fixtures.hashing.QuickHasher"]
    del os.environ["DJANGO_SETTINGS_MODULE"]  # or pytest-xdist's workers would load them before this hook


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Modules of which no test is asked for are not even imported: with torch that took longer than many tests."""
    if not collection_path.match("test_*.py"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    wanted = set(re.findall(r"\w+", config.option.markexpr)) - {"or"}
    if wanted and wanted <= SET_APART:
        return None if any(f"mark.{name}" in text for name in wanted) else True
    whole = re.search(rf"^pytestmark = .*mark\.({'|'.join(SET_APART)})\b", text, re.MULTILINE)
    return True if whole and wanted == SET_APART | {"not", "and"} else None


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A long text's beginning and length: some are of 30 MiB, and names are sent, sorted and put into environments."""
    if not isinstance(val, str | bytes) or len(val) <= 100:
        return None
    begin = val[:40].decode("ascii", "backslashreplace") if isinstance(val, bytes) else val[:40]
    return f"{begin}... ({len(val)} in {argname})"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """In a fresh checkout each of pytest-xdist's workers would compile all modules, at the same time and in the same
    order. So each begins elsewhere, and finds what the others have compiled. Faults are told where pytest collects."""
    number = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if number and session.config.args == session.config.getini("testpaths"):
        root = session.config.rootpath
        modules = [
            p for p in sorted((root / "tests").rglob("test_*.py")) if not pytest_ignore_collect(p, session.config)
        ]
        begin = len(modules) * int(number) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        for path in modules[begin:] + modules[:begin]:
            with suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins, so that nobody waits for it alone at the end: what kills, what is slow, what waits for
    processes of its own. Then groups, which pytest-xdist gives to one of its workers, and the rest fills the gaps."""

    def rank(item: pytest.Item) -> int:
        if item.path.name in LONGEST:
            return LONGEST.index(item.path.name)
        marks = [number for number, name in enumerate(("kill", "slow", "xdist_group")) if item.get_closest_marker(name)]
        return len(LONGEST) + (marks[0] if marks else 3)

    for item in items:
        if item.get_closest_marker("browser") and (item.get_closest_marker("slow") or item.get_closest_marker("kill")):
            # Playwright's loop stays in the thread, and no test after it in the same session could run one.
            raise pytest.UsageError(f"{item.nodeid} drives Chromium: mark it as browser only.")
        if not any(item.get_closest_marker(name) for name in SET_APART | {"xdist_group"}):
            for name in TOGETHER.keys() & set(getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.xdist_group(TOGETHER[name]))
    items.sort(key=rank)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What all modules loaded stays to the end: the collector need not look at a million objects again and again,
    nor at the few hundred that each query makes."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_report_header(config: pytest.Config) -> str:
    return f"PYTHONHASHSEED={os.environ['PYTHONHASHSEED']} in pytest-xdist's workers and child processes"


def pytest_unconfigure(config: pytest.Config) -> None:
    SERVERS.stop()
    HOME.cleanup()


@pytest.fixture(scope="session", autouse=True)
def django_test_environment(django_test_environment: None) -> None:
    """Django's own, but `response.context` is the page's alone, without a copy for each of its hundreds of parts."""
    from django.template.base import Template
    from django.template.context import Context
    from django.test.signals import template_rendered
    from django.utils.safestring import SafeString

    def _render(self: Template, context: Context) -> SafeString:
        if context.template is self:
            template_rendered.send(sender=self, template=self, context=context)
        return self.nodelist.render(context)

    Template._render = _render  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: pytest.FixtureRequest) -> None:
    """The test database, which a test with real commits leaves empty."""
    from django.db import connection

    from tests.fixtures import flush

    with django_db_blocker.unblock(), connection.cursor() as cursor:  # type: ignore[attr-defined]
        # A given server whose role may not delete past triggers is truncated; the trigger's own test turns it on.
        cursor.execute("ALTER TABLE accounts_auditentry DISABLE TRIGGER audit_no_truncate")
    flush.install()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with real environments, trajectories and server lists that ENVARIUM_TEST_DATA names."""
    named = os.environ.get("ENVARIUM_TEST_DATA", "").strip()
    if not named:
        pytest.skip("ENVARIUM_TEST_DATA names no folder with the real data")
    folder = Path(named)
    if not folder.is_dir():
        pytest.fail(f"ENVARIUM_TEST_DATA={named} is not a folder")
    return folder


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """One that waits a second for a call, not five: tests wait for those that hang."""
    from synthesis.contracts import Limits
    from synthesis.runtime import Sandbox

    made = Sandbox(limits=Limits(memory_mib=128, call_seconds=1.0))
    yield made
    made.close()


@pytest.fixture
def brief_calls(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs in this process's own sandbox is given up sooner."""
    monkeypatch.setattr("synthesis.runtime.sandbox._default", sandbox)


@pytest.fixture(scope="session")
def worker_process(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A real Celery worker on this session's database: use with `@pytest.mark.django_db(transaction=True)`."""
    from tests.fixtures.processes import celery_worker

    with celery_worker(tmp_path_factory.mktemp("worker"), "tests", ENVARIUM_JOB_MEMORY_MIB="2048") as running:
        yield running.pid


@pytest.fixture(scope="session")
def site_process(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of one site for the whole session; tests that stop or change theirs start their own."""
    from tests.fixtures.processes import site

    with site(tmp_path_factory.mktemp("site")) as url:
        yield url


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """What `make run` starts, on one home for all that shake or measure one: each leaves it stopped, or well."""
    from tests.fixtures.installation import Installation

    found = Installation(tmp_path_factory.mktemp("stack"))
    yield found
    found.stop()


@pytest.fixture
def filled_home(installation: Installation) -> Path:
    """That home, stopped, with the demo's content and no job under way."""
    if installation.running is None:
        installation.start()
        installation.end_first_audit()
    installation.stop()
    return installation.home.path


@pytest.fixture
def live_site(transactional_db: None, site_process: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The base URL of the site under uvicorn, on this test's database. What a test commits, it shows."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # Playwright keeps a loop running in this thread
    return site_process


@pytest.fixture(scope="session")
def chromium_process() -> Iterator[Browser]:
    """One Chromium for the whole session."""
    from tests.fixtures.chromium import running_chromium

    with running_chromium() as browser:
        yield browser


@pytest.fixture
def chromium(chromium_process: Browser) -> Iterator[Browser]:
    """Chromium without any page of another test."""
    yield chromium_process
    for context in chromium_process.contexts:
        context.close()
