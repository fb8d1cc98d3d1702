"""Every benchmark at its smallest, called as people call it: it ends, and its JSON has the figures it promises."""

from __future__ import annotations

import json
import multiprocessing
import os
import runpy
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.batch_parts.schedule import bound_rounds, build_steps, schedule_rounds

pytestmark = pytest.mark.slow
HERE = Path(__file__).resolve().parent
HELPERS = {"databases", "in_process"}
"""Modules that benchmarks share, and that nobody calls."""
SMALLEST: dict[str, tuple[str, set[str]]] = {
    "agreement": (
        "--items 40 --labels 8 --resamples 20 --plain-items 12",
        {"max_error", "errors", "seconds", "bootstrap_ratio", "bootstrap_gap"},
    ),
    "answers": ("--tasks 3", {"cases", "wrong_paid", "right_refused", "lines", "wrong", "seconds"}),
    "audits": (
        "--tasks 1",
        {"judging_ratio", "cpu_judging_ratio", "audit_ratio", "audit_median_s", "audit_max_s", "mutants", "states"},
    ),
    "batch": (
        "--items 4 --at-once 4 --latency 0.01",
        {"efficiency", "ratio_to_ideal", "of_floor", "floor_s", "rss_growth_mib"},
    ),
    "chaos": (
        "--minutes 0.05 --only job,zygote --themes 1 --attempts 2 --without-training",
        {"kills_by_kind", "lost", "doubled", "calls_repeated", "in_flight_at_kills", "recovered_s"},
    ),
    "curation": (
        "--annotators 6 --environments 8 --tasks 160 --trajectories 600 --minutes 0.2 --think 0.5 --closed-seconds 2 "
        "--searches 6",
        {"p95_ms", "requests", "decisions_per_s", "decision_to_next_ms", "search_p95_ms", "sizes", "seed_s"},
    ),
    "data_truth": ("--only json,rows,ids,tags,openai", {"cases", "wrong", "by_kind", "failed", "seconds"}),
    "dataset_export": (
        "--rows 200 --only 'atif jsonl stored'",
        {"exports", "most_seconds", "most_growth_mib", "hashes_equal"},
    ),
    "engine": (
        "--attempts 4 --turns 4 --at-once 4 --latency-ms 5 --prompt-tokens 10",
        {"turns_per_s", "ideal_s", "actual_s", "efficiency", "cpu_ms_a_turn", "rank_mib"},
    ),
    "gpu_smoke": (
        "--tiny --steps 24 --rl-steps 1 --each 10",
        {"gpus", "software", "engine", "model", "sft", "resumed_from", "rl", "saved_bytes", "serve"},
    ),
    "graphs": (
        "--tools 10 --walks 50 --merges 10 --blueprints 4",
        {"seconds", "duplicates", "peak_mib", "alike", "blueprints_a_minute"},
    ),
    "ingest": ("--steps 40 --keys 4 --kills 1", {"ingest_points_per_s", "duplicates", "gaps", "kills"}),
    "learning": ("--seeds 1 --epochs 0.05 --steps 1 --tasks 2 --each 8", {"runs", "gain"}),
    "migration": ("--tasks 200", {"seconds", "empty_s", "new_s", "by_migration", "marked", "growth_mib"}),
    "near_duplicates": ("--rows 300 --planted 5", {"shapes", "most_seconds", "most_growth_mib", "planted_found"}),
    "pages": (
        "--small --rounds 1 --only 'a rare word'",
        {"pages", "worst", "p50_ms", "p95_ms", "queries", "text_search_p95_ms", "treemap_ms"},
    ),
    "prompt_tokens": (
        "--data tests/benchmarks/prompt_parts/sample",
        {"recorded_tokens", "recorded_calls", "tokens", "calls", "ratio", "roles"},
    ),
    "replay": ("--moves 4 --rounds 2 --steps 40 --records 60", {"open_ms", "step_p50_ms", "jump_p50_ms", "move_ratio"}),
    "replies": ("", {"replies", "read", "refused", "wrongly_read", "wrongly_refused", "by_family", "seconds"}),
    "rest": ("--small --unused", {"pss_mib", "processes", "cpu_share", "by_role", "references"}),
    "rollouts": (
        "--latency 0.01 --episodes 1 --at 1 4",
        {"episodes_per_s", "environment_share", "of_ideal", "of_stock_client"},
    ),
    "runtime": ("--small --episodes 4 --growth 50", {"episode_ms", "episode_ratio", "growth_mib_50"}),
    "sft_start": ("--rows 40 --turns 3 --words 6 --eager 10 --batch 8", {"lazy_s", "eager_s", "eager_by_lazy"}),
    "themes": ("", {"precision", "recall", "seconds", "asked", "vectors_alone", "best_threshold"}),
    "training": (
        "--steps 1 --rounds 1 --warm 0 --rollouts 2 --epochs 0.1 --each 8 --without-ingest",
        {"rl_step_ratio", "step_s", "trl_step_s"},
    ),
}
"""By module: the arguments of its shortest run, and some of what it must say."""


OURS = {"DJANGO_SETTINGS_MODULE", "ENVARIUM_SECRET_KEY"}
"""What this session set for itself. An installation that a benchmark starts seals keys with a secret of its own."""


FORKED = {"engine", "learning", "sft_start", "training"}
"""Those that load torch: they are forked from a process that has loaded it, and computed nothing."""
LOADED = multiprocessing.get_context("forkserver")
LOADED.set_forkserver_preload(["training.job_setup"])


def called(module: str, arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", f"tests.benchmarks.{module}", "--json", *shlex.split(arguments)]
    environment = {name: value for name, value in os.environ.items() if name not in OURS}
    done = subprocess.run(command, cwd=HERE.parents[1], env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3_000:]
    return last_object(done.stdout)


def last_object(output: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return said


def run_here(module: str, arguments: str, folder: Path) -> None:
    """What `python -m` does, with the output in files. In a process of its own."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
    for name in OURS:
        os.environ.pop(name, None)
    sys.argv = ["", "--json", *shlex.split(arguments)]
    runpy.run_module(f"tests.benchmarks.{module}", run_name="__main__", alter_sys=True)


def forked(module: str, arguments: str, folder: Path) -> dict[str, Any]:
    process = LOADED.Process(target=run_here, args=(module, arguments, folder))
    process.start()
    process.join(900)
    assert process.exitcode == 0, (folder / "stderr").read_text()[-3_000:]
    return last_object((folder / "stdout").read_text())


def test_no_benchmark_is_left_out() -> None:
    rooms = {path.parent.name for path in HERE.glob("[a-z]*/__main__.py")}
    assert ({path.stem for path in HERE.glob("[a-z]*.py")} | rooms) - HELPERS - {"test_smoke"} == set(SMALLEST)


def test_a_recorded_batch_costs_at_most_seven_tenths(real_data: Path) -> None:
    found = called("prompt_tokens", f"--data {shlex.quote(str(real_data))}")
    if "skipped" in found:
        pytest.skip(found["skipped"])
    dear = {role: figures["ratio"] for role, figures in found["roles"].items() if figures["ratio"] > 0.7}
    assert not dear, "each role, for the same work"


def test_without_a_gpu_the_smoke_of_one_ends_with_3_and_a_sentence() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.gpu_smoke", "--json"]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=HERE.parents[1], env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.strip().splitlines()[-1].startswith("There is no GPU here that torch can use")


def test_a_batch_of_a_variant_is_measured_against_the_calls_that_it_recorded() -> None:
    found = called("batch", "--variant programmatic --items 4 --at-once 16 --latency 0.02")
    assert {"ratio_to_ideal", "ideal_s", "actual_s", "cpu_s", "critical_path"} <= set(found)
    assert found["llm_calls"] == pytest.approx(found["recorded_calls"], rel=0.02)
    assert found["recorded_calls"] > found["critical_path"]
    assert found["ideal_s"] >= 0.02 * found["critical_path"]
    assert found["states"]["task kept"] > 0


@pytest.mark.parametrize(
    ("depths", "at_once", "bound", "rounds"),
    [
        ({"t": {1: 1, 2: 1, 3: 1, 4: 1}}, 64, 4, 4),  # one chain: the critical path
        ({"t": {1: 128}}, 64, 2, 2),  # no chain: throughput
        ({"t": {1: 1, 2: 1, 3: 128}}, 64, 4, 4),  # what can begin after two rounds alone takes two more
        ({"t": {1: 3, 2: 1, 3: 1}}, 2, 3, 4),  # the first three calls take two rounds, which no bound sees
        # The long item goes first, though the other came first; in order of arrival it were 5.
        ({"t": {1: 1}, "t/scenario-0": {2: 2}, "t/scenario-1": {2: 1, 3: 1, 4: 1}}, 2, 4, 4),
    ],
)
def test_the_ideal_of_a_batch_is_a_schedule_that_can_be_kept(
    depths: dict[str, dict[int, int]], at_once: int, bound: float, rounds: int
) -> None:
    steps = build_steps(depths)
    total = sum((Counter(rows) for rows in depths.values()), Counter[int]())
    assert (bound_rounds(steps, total, at_once), schedule_rounds(steps, at_once)) == (bound, rounds)


@pytest.mark.xdist_group("one installation")
def test_an_installation_at_rest(filled_home: Path) -> None:
    arguments, promised = SMALLEST["rest"]
    assert promised <= set(called("rest", f"{arguments} --home {shlex.quote(str(filled_home))}"))


def together(module: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.xdist_group("ranks")] if module in FORKED else []


@pytest.mark.parametrize("module", [pytest.param(one, marks=together(one)) for one in SMALLEST if one != "rest"])
def test_it_comes_to_its_end_and_says_its_figures(module: str, tmp_path: Path) -> None:
    arguments, promised = SMALLEST[module]
    said = forked(module, arguments, tmp_path) if module in FORKED else called(module, arguments)
    assert promised <= set(said)
    assert said.get("duplicates", 0) == said.get("gaps", 0) == 0
    assert said.get("lost", 0) == said.get("doubled", 0) == 0, said
    assert said.get("content_equal", True), said
    assert said.get("hashes_equal", True), said
    assert said.get("planted_found") == said.get("planted"), said
    for wrong in ("double_assignments", "lost_decisions", "counts_wrong", "server_errors"):
        assert said.get(wrong, 0) == 0, said
    assert said.get("kills", 1) > 0
