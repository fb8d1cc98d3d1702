"""Commands of the README and of the guides, exactly as they stand there: run in a scratch folder, or proved where
`ELSEWHERE` says. Shell blocks of guides run on an installation as `make run` starts it."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.installation import Installation
from tests.fixtures.processes import test_database_url

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
GUIDES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/guides").glob("*.md"))}
SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""A block of a guide that is run. Those of one guide share a shell: later ones see variables of earlier ones."""
STOPPED = "\n## Backup\n"
"""What follows in a guide is for a site that was stopped."""
MOST_GUIDE_LINES, MOST_PICTURE_BYTES = 120, 150_000
COMMAND = re.compile(r"(?:\.venv/bin/)?(?:python|pip|make|docker)\s.*")
ELSEWHERE = {
    "make run": "tests/stack/test_start.py",
    "make test": ".ci/run",
    "make setup-dev": ".ci/run",
    "make setup-train": "tests/stack/test_docker.py",
    "docker compose": "tests/stack/test_docker.py",
    "python -m tests.benchmarks": "tests/benchmarks/test_smoke.py",
    "python -m training.demo": "tests/training/test_launch.py",
    "python -m training.launch": "tests/training/test_launch.py",
    "python -m training.worker": "tests/workers/training_support.py",
    "manage.py train_demo": "tests/runs/test_demo.py",
    "pip install ./envarium_": "tests/portable/test_verifiers.py",
    "pip install vllm": "tests/real_server/test_training.py",
}
"""What trains for minutes, or is no command of ours: what the command begins with, and where it is proved. Its options
are looked for in what it says of itself."""


def commands(text: str) -> list[str]:
    """In the order of the text: what stands in fenced blocks, a line each, and between backticks."""
    found = []
    for block, span in re.findall(r"^```\w*\n(.*?)^```|`([^`]+)`", text, re.MULTILINE | re.DOTALL):
        lines = block.splitlines() if block else [" ".join(span.split())]
        found += [line.strip() for line in lines if COMMAND.fullmatch(line.strip())]
    return list(dict.fromkeys(found))


def elsewhere(command: str) -> str:
    """Where a command is proved that is not run here; empty for one that is."""
    plain = command.removeprefix(".venv/bin/").removeprefix("python manage.py ")
    begun = command if plain == command else f"manage.py {plain}" if "manage.py" in command else plain
    return next((proof for name, proof in ELSEWHERE.items() if begun.startswith(name)), "")


ONE_BY_ONE = """
import contextlib, io, json, runpy, sys
told = []
for words in json.load(sys.stdin):
    said, failed, code = io.StringIO(), io.StringIO(), 0
    module = words[1] if words[0] == "-m" else ""
    sys.argv = words[1:] if module else words
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(failed):
        try:
            runpy.run_module(module, None, "__main__", True) if module else runpy.run_path(words[0], None, "__main__")
        except SystemExit as end:
            code = end.code or 0
    told.append((code, said.getvalue(), failed.getvalue()))
print(json.dumps(told))
"""
"""Runs commands (the words behind `python`) as Python does, but in one process: torch and Django are loaded once."""
EVERY = list(dict.fromkeys(found for page in PAGES for found in commands(page.read_text(encoding="utf-8"))))
HERE = [one for one in EVERY if not elsewhere(one)]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder that looks like the checkout, and the environment in which commands run there."""
    folder = tmp_path_factory.mktemp("checkout")
    for entry in ROOT.iterdir():
        if not entry.name.startswith("."):
            (folder / entry.name).symlink_to(entry)
    python = folder / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    # No link: bytecode is kept by the path of what is loaded, and in a new folder all libraries would be compiled anew.
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    return folder, environment | {"ENVARIUM_HOME": str(folder / "home"), "ENVARIUM_LOG_LEVEL": "WARNING"}


@pytest.fixture(scope="module")
def started(checkout: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """What `make run` starts, without a training worker: the researchers' guide starts one."""
    running = Installation(tmp_path_factory.mktemp("guides"), ENVARIUM_TRAINING="off", ENVARIUM_LOG_LEVEL="WARNING")
    running.start()
    running.end_first_audit()
    yield running
    running.stop()


@pytest.fixture
def with_content(checkout: tuple[Path, dict[str, str]], transactional_db: None) -> tuple[Path, dict[str, str]]:
    """The same with a database that holds the demo's content, and with files to import."""
    from tests.importing import samples
    from tests.starter.loaded_demo import require_demo_loaded_once
    from tests.taxonomy.samples import server
    from tests.tool_documents.test_requirements import LIBRARY

    folder, environment = checkout
    require_demo_loaded_once(folder)
    files = {
        "env_metadata.json": [samples.environment()],
        "rl_scenarios.json": [samples.scenario()],
        "trajectories.json": [samples.run([samples.CLOSE], 0.6667)],
    }
    for name, records in files.items():
        (folder / name).write_text(json.dumps(records), encoding="utf-8")
    (folder / "servers.jsonl.gz").write_bytes(gzip.compress(json.dumps(server()).encode() + b"\n"))
    (folder / "openapi.yaml").write_text("openapi: 3.0.0\ninfo: {title: Shop}\npaths: {/orders: {get: {}}}\n")
    (folder / "functions.json").write_text('[{"type": "function", "function": {"name": "book"}}]')
    (folder / "tools.md").write_text("# Desk\n\n## `book(day)`\n")
    (folder / "desk.md").write_text(LIBRARY)
    return folder, environment | {"DATABASE_URL": test_database_url()}


def run(folder: Path, environment: dict[str, str], command: list[str], given: str = "") -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, input=given, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-1_000:]}\n{done.stderr[-2_000:]}"
    return done.stdout


def told(folder: Path, environment: dict[str, str], commands: list[list[str]]) -> list[tuple[int, str, str]]:
    """(exit status, output, errors) of each."""
    said: list[tuple[int, str, str]] = json.loads(
        run(folder, environment, [sys.executable, "-c", ONE_BY_ONE], json.dumps(commands))
    )
    return said


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run_blocks(folder: Path, environment: dict[str, str], guide: str) -> str:
    """Run the shell blocks of a guide, one after the other in one shell, and return what they print."""
    blocks = SHELL.findall(guide)
    assert blocks
    return run(folder, environment, ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)])


def test_there_are_commands_and_few_are_proved_elsewhere() -> None:
    assert len(HERE) >= 8
    assert {name for name in ELSEWHERE if not any(elsewhere(one) == ELSEWHERE[name] for one in EVERY)} == set()
    assert [proof for proof in ELSEWHERE.values() if not (ROOT / proof).is_file()] == []


@pytest.mark.slow
def test_every_command_runs_as_it_stands_there(with_content: tuple[Path, dict[str, str]]) -> None:
    folder, environment = with_content
    *most, last = HERE
    words = [shlex.split(one, comments=True) for one in most]
    assert {one[0] for one in words} == {".venv/bin/python"}
    said = dict(zip(most, told(folder, environment, [one[1:] for one in words]), strict=True))
    run(folder, environment, ["bash", "-c", last])
    for command, (code, output, errors) in said.items():
        assert code == 0, f"{command}\n{output[-1_000:]}\n{errors[-2_000:]}"
        if "--json" in command:
            assert json.loads(output), command
    audited = next(json.loads(output) for command, (_, output, _) in said.items() if " audit " in command)
    assert (audited["tasks"], audited["green"], audited["nondeterministic"]) == (6, 6, 0)
    assert (audited["noop_max"], audited["reference_min"]) == (0, 1)
    assert audited["mutants_below_reference"] == audited["mutants"] >= 48
    names = set(json.loads((folder / "environments.json").read_text(encoding="utf-8")))
    assert "desk" in names
    assert len(names) >= 1 + 8 + 4, "what was imported, what is bundled, and what the batch made"
    assert len(json.loads((folder / "scenarios.json").read_text(encoding="utf-8"))) > 48
    assert len(lines(folder / "runs.jsonl")) > 20
    assert [one["messages"][0]["role"] for one in lines(folder / "train.jsonl")][:8] == ["system"] * 8


@pytest.mark.slow
def test_what_is_not_run_here_takes_the_options_that_it_is_shown_with(checkout: tuple[Path, dict[str, str]]) -> None:
    _, environment = checkout
    shown = [one for one in EVERY if elsewhere(one) and "python" in one.split()[0]]
    words = [shlex.split(one.replace("[", " ").replace("]", " "), comments=True)[1:] for one in shown]
    helps = told(ROOT, environment, [[*one[:2], "--help"] for one in words])
    for command, given, (code, output, errors) in zip(shown, words, helps, strict=True):
        assert code == 0, f"{command} --help: {errors}"
        unknown = [word for word in given[2:] if word.startswith("--") and word not in output]
        assert not unknown, f"{command}: {unknown}"


def test_guides_are_short_and_their_commands_are_run_or_proved() -> None:
    assert set(GUIDES) == {"annotators", "operators", "researchers"}
    for name, text in GUIDES.items():
        assert len(text.splitlines()) <= MOST_GUIDE_LINES, name
        pictures = [ROOT / "docs/guides" / picture for picture in re.findall(r"!\[[^]]+\]\(([\w-]+\.png)\)", text)]
        assert 2 <= len(pictures) <= 4, name
        assert [path.name for path in pictures if path.stat().st_size > MOST_PICTURE_BYTES] == []
        beside = commands(SHELL.sub("", text))
        assert [one for one in beside if one not in HERE and not elsewhere(one)] == [], name


@pytest.mark.slow
def test_the_shell_blocks_of_the_guides_run_one_after_the_other(
    checkout: tuple[Path, dict[str, str]], started: Installation
) -> None:
    folder, environment = checkout[0], started.environment()
    before, after = GUIDES["operators"].split(STOPPED)
    run_blocks(folder, environment, GUIDES["annotators"])
    run_blocks(folder, environment, before)
    batches = started.execute("SELECT variant, state, cloned_from_id IS NULL FROM batches_batch ORDER BY id")
    assert {variant for variant, _, _ in batches} == {"envscaler", "autoforge", "programmatic", "walk"}
    assert {state for _, state, _ in batches} == {"done"}
    assert [own for _, _, own in batches].count(False) == 1
    run_blocks(folder, environment, GUIDES["researchers"])
    jobs = started.execute("SELECT method, state FROM runs_trainingjob ORDER BY id")
    assert jobs == [("supervised", "succeeded"), ("reinforcement", "succeeded"), ("evaluation", "succeeded")]
    assert "reward" in (folder / "numbers.csv").read_text(encoding="utf-8").splitlines()[0].split(",")
    started.stop()
    run_blocks(folder, environment, after)
    assert len(lines(folder / "restored.jsonl")) > 20, "the copy has what the site had"
