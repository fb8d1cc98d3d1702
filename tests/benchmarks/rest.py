"""What an installation holds when nobody asks anything of it, beside one bare process of the same code.

    python -m tests.benchmarks.rest --json [--seconds 30] [--settle 75] [--unused | --small] [--home FOLDER]

Starts `make run` on a home and a port of its own, waits until its clock has had everything done once that it does every
minute, and looks at all processes below it: memory as PSS (what is shared is counted once, in parts), their number, and
the share of one core that they use together. Then the site is used (pages, a rollout, an import that compares themes)
and left alone again: `after_use` is what that leaves behind. `references` are a bare Python and one that has loaded the
site's code, measured meanwhile. `--unused` leaves the use out, `--small` also waits for next to nothing. `--home` is
one that is there already (and that nothing runs on), in place of a new one.
The last line of output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.fixtures.installation import Installation
from tests.fixtures.processes import ROOT, wait_for
from webapp.stack.home import Home
from webapp.stack.valkey import Valkey

WANTED_MIB = 900
HELD = "import sys; sys.stdout.write('.'); sys.stdout.flush(); sys.stdin.read()"
REFERENCES = {
    "python": HELD,
    "models": f"import django; django.setup(); {HELD}",
    "site": f"import webapp.asgi; {HELD}",
}
"""What a process costs that does nothing but hold this."""
PAGES = ("/", "/environments/", "/tasks/", "/trajectories/", "/taxonomy/", "/batches/", "/training/", "/jobs/", "/api/")
LANES = 2
IDLE_SECONDS = 600


def pss_mib(pid: int) -> float:
    """The process's memory: its own pages, and of each shared page the part that falls to it."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def role(process: psutil.Process, services: dict[int, str]) -> str:
    """The service that the process is, or is a child of; sandboxes apart."""
    inside = False
    for one in (process, *process.parents()):
        if "zygote" in " ".join(one.cmdline()):
            inside = True
        elif one.pid in services:
            name = services[one.pid]
            return f"{name}: sandbox" if inside else name if one.pid == process.pid else f"{name}: child"
    return "supervisor"


def services(run: Installation) -> dict[int, str]:
    found = {}
    for record in run.home.records.glob("*.json"):
        found[int(json.loads(record.read_text())["pid"])] = record.stem
    return found


def family(run: Installation) -> list[psutil.Process]:
    assert run.running
    return [psutil.Process(run.running.pid), *run.children()]


def processor_seconds(process: psutil.Process) -> float:
    """Of this and of those children of its that have ended."""
    try:
        return float(sum(process.cpu_times()[:4]))
    except psutil.NoSuchProcess:
        return 0.0


def rest(run: Installation, seconds: float) -> dict[str, Any]:
    """What all processes of the run hold and use over that time."""
    before, began = {process.pid: processor_seconds(process) for process in family(run)}, time.monotonic()
    time.sleep(seconds)
    passed, names = time.monotonic() - began, services(run)
    roles: dict[str, dict[str, float]] = {}
    for process in family(run):
        try:
            name, held = role(process, names), pss_mib(process.pid)
        except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            continue
        used = max(0.0, processor_seconds(process) - before.get(process.pid, 0.0))
        found = roles.setdefault(name, {"pss_mib": 0, "processes": 0, "cpu_share": 0})
        for key, value in (("pss_mib", held), ("processes", 1), ("cpu_share", used / passed)):
            found[key] = round(found[key] + value, 4)
    total = {
        key: round(sum(found[key] for found in roles.values()), 4) for key in ("pss_mib", "processes", "cpu_share")
    }
    return {**total, "by_role": dict(sorted(roles.items()))}


def is_idle(run: Installation) -> bool:
    """Whether no background job is left of what the start, or the use, began."""
    return run.execute("select count(*) from jobs_job where state in ('queued', 'running')") == [(0,)]


def environment(run: Installation) -> dict[str, str]:
    """What a program needs to stand beside the running site."""
    return {
        **run.environment(),
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "DATABASE_URL": run.database(),
        "BROKER_URL": Valkey(run.home.valkey, run.home.sockets()).url(),
        "ENVARIUM_SECRET_KEY": run.home.secret("secret-key"),
    }


def references(run: Installation) -> dict[str, float]:
    found = {}
    for name, code in REFERENCES.items():
        with subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment(run),
        ) as process:
            assert process.stdout
            process.stdout.read(1)
            found[name] = round(pss_mib(process.pid), 1)
            process.kill()
    return found


def use(run: Installation) -> None:
    """Look at every list as a person does, and let each queue work."""
    url = f"http://127.0.0.1:{run.port}"
    with httpx.Client(base_url=url, follow_redirects=True, timeout=60) as client:
        client.get("/account/login/")
        form = {"username": "demo", "password": run.home.secret("demo-password")}
        token = next(value for name, value in client.cookies.items() if name.endswith("_csrf"))
        client.post("/account/login/", data={**form, "csrfmiddlewaretoken": token}, headers={"Referer": url})
        for page in PAGES:
            answer = client.get(page)
            if answer.status_code != 200 or "login" in str(answer.url):
                raise SystemExit(f"{page} answered {answer.status_code} at {answer.url}")
    subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.rest", "--work"], env=environment(run), cwd=ROOT, check=True
    )


def work() -> None:
    """A batch of two lanes and a grouping of themes, to their ends. Runs in a process of its own."""
    import django

    django.setup()
    from synthesis.pipeline import ENVSCALER
    from synthesis.scripted import list_bundled_themes
    from synthesis.stages import StageSettings
    from webapp.batches import services
    from webapp.batches.models import Batch
    from webapp.batches.spec import ROLES, SCRIPTED, BatchSettings
    from webapp.celery import app
    from webapp.jobs.models import Job
    from webapp.taxonomy.near_duplicates.services import start_grouping

    app.loader.import_default_modules()

    stages = StageSettings(scenarios=1, tasks=1, teacher_runs=1, assessment_calls=8, solver_runs=1)
    settings = BatchSettings(models=dict.fromkeys(ROLES, SCRIPTED), stages=stages, lanes=LANES, at_once=4)
    batch = services.create_batch(
        None, "Use", [services.build_theme_spec(one) for one in list_bundled_themes()[:LANES]], settings, ENVSCALER
    )
    grouping = start_grouping(None, 0.6)
    wait_for(lambda: Job.objects.get(pk=grouping.pk).state == "succeeded", seconds=120, what="the grouping")
    wait_for(lambda: Batch.objects.get(pk=batch.pk).state == "done", seconds=240, what="the batch")


def measure(seconds: float, settle: float, used: bool, home: Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="rest-") as folder:
        run = Installation(Path(folder))
        run.home = Home(home) if home else run.home
        began = time.monotonic()
        run.start()
        ready = time.monotonic() - began
        try:
            wait_for(lambda: is_idle(run) or not used, seconds=IDLE_SECONDS, what="the end of what the start began")
            time.sleep(settle)
            found = {**rest(run, seconds), "ready_s": round(ready, 1), "references": references(run)}
            if used:
                use(run)
                wait_for(lambda: is_idle(run), seconds=IDLE_SECONDS, what="the end of what the use began")
                time.sleep(settle)
                found["after_use"] = rest(run, seconds)
        finally:
            run.signal_and_wait(signal.SIGTERM)
    return found


def main() -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--settle", type=float, default=75, help="seconds to wait before each measurement")
    parser.add_argument("--unused", action="store_true", help="measure before any use only")
    parser.add_argument("--small", action="store_true", help="two seconds each, unused: whether it runs at all")
    parser.add_argument("--home", type=Path, help="start this one, not a new one")
    parser.add_argument("--work", action="store_true", help="use the site of DATABASE_URL")
    options = parser.parse_args()
    if options.work:
        work()
        return {}
    seconds, settle = (2.0, 2.0) if options.small else (options.seconds, options.settle)
    found = {
        **measure(seconds, settle, not (options.unused or options.small), options.home),
        "wanted_mib": WANTED_MIB,
        "load": [round(value, 1) for value in os.getloadavg()],
    }
    print(json.dumps(found) if options.json else json.dumps(found, indent=2))
    return found


if __name__ == "__main__":
    main()
