"""Training worker beside the web app: its account, its token and its process."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psutil
import redis
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from training.job import ANY_MODEL, OPTIONAL_PACKAGES, can_fetch_models
from training.main_memory import read_main_memory
from webapp.accounts.models import Role, User
from webapp.accounts.services import write_audit_entry
from webapp.accounts.tokens import MOST_DAYS, Refusal, create_token, find_token, list_granted_scopes
from webapp.jobs.presence import list_workers as celery_workers
from webapp.runs.local import installation
from webapp.runs.preflight import matching
from webapp.runs.preflight.candidates import Candidate, list_candidates
from webapp.runs.wakeups import GPU_QUEUE, ready_jobs
from webapp.stack.account import die_with_parent
from webapp.stack.install import has_nvidia
from webapp.stack.process import identify_process, kill_group

USERNAME = "gpu-worker"
TOKEN = "worker-token"
RENEWED_WITHIN = timedelta(days=60)
"""A token that ends so soon is replaced at the next start."""
MODULE = "training.worker"
NAME = "beside the site"
SERVING_NAME = "beside the site, serving"
BESIDE = "the one beside this site, which starts by itself"
AT_ONCE = 500
STOP_SECONDS = 25.0
"""Time for a trainer to end its step and upload a checkpoint. `make run` waits a little longer."""


def get_token_path() -> Path:
    return Path(settings.ENVARIUM_HOME) / TOKEN


@transaction.atomic
def ensure_token() -> bool:
    """Keep a token of the worker's account in a file that only the site's account can read. Return True if it is new.

    An account that an administrator has disabled remains disabled.
    """
    user, is_new = User.objects.get_or_create(username=USERNAME, defaults={"role": Role.OPERATOR})
    if is_new:
        user.set_unusable_password()
        user.save(update_fields=["password"])
        write_audit_entry(None, "user.create", user, role=user.role)
    if not user.is_active or _has_valid_token(user):
        return False
    _, text = create_token(None, user, "the worker beside the site", ["worker"], MOST_DAYS)
    _write_token(text)
    return True


def _has_valid_token(user: User) -> bool:
    try:
        token = find_token(get_token_path().read_text(encoding="utf-8").strip())
    except OSError:
        return False
    if isinstance(token, Refusal) or token.user_id != user.pk:
        return False
    return "worker" in list_granted_scopes(token) and token.expires_at > timezone.now() + RENEWED_WITHIN


def _write_token(text: str) -> None:
    path = get_token_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
    fresh.replace(path)


def list_startable_candidates() -> list[Candidate]:
    """Return the worker that this installation starts when a job waits, as a candidate; an empty list if it cannot."""
    try:
        queues = [queue for seen in celery_workers(settings.BROKER_URL) for queue in seen.queues]
    except redis.RedisError:
        return []
    return [_build_candidate()] if GPU_QUEUE in queues and installation.can_import_training() else []


def _build_candidate() -> Candidate:
    """Return the worker as it would introduce itself; with GPUs, which only the worker itself detects, no memory is
    given."""
    vllm = ("vllm",) if importlib.util.find_spec("vllm") else ()
    models = frozenset({ANY_MODEL} if can_fetch_models() else ())
    software = frozenset(name for name in OPTIONAL_PACKAGES if importlib.util.find_spec(name.replace("-", "_")))
    main = 0 if has_nvidia() else read_main_memory() >> 20
    return Candidate(BESIDE, ("transformers", *vllm), models, main_memory=main, beside=True, software=software)


def is_worker_wanted() -> bool:
    """Return whether a job waits that a worker here would be given."""
    if not installation.can_import_training():
        return False
    candidate = _build_candidate()
    here = [candidate, *(one for one in list_candidates() if one.worker)]
    waiting = ready_jobs().select_related("after").order_by("pk")[:AT_ONCE]
    return any(candidate in matching.list_able_candidates(job, here) for job in waiting)


def build_command(serves: int = 0) -> list[str]:
    """Return the command line of the worker, which trains or (`serves` models at once) serves. Its token is in a file:
    arguments are visible to every account."""
    home = Path(settings.ENVARIUM_HOME) / ("serving-worker" if serves else "worker")
    arguments = [sys.executable, "-m", MODULE, "--url", settings.SITE_URL, "--token-file", str(get_token_path())]
    arguments += ["--home", str(home), "--name", SERVING_NAME if serves else NAME, "--beside", "--until-idle"]
    return [*arguments, "--serve", str(serves)] if serves else arguments


def build_environment() -> dict[str, str]:
    """Return the environment of the worker: this process's, without the secrets that a worker does not need."""
    private = ("DATABASE_URL", "BROKER_URL", "OPENAI_API_KEY", "ENVARIUM_EVENTS_DATABASE_URL")
    return {name: value for name, value in os.environ.items() if name not in private and "SECRET" not in name}


def is_working(serves: int = 0) -> bool:
    """Return whether the worker's home is in use: two workers never share one."""
    lock = Path(settings.ENVARIUM_HOME) / ("serving-worker" if serves else "worker") / "lock"
    try:
        with lock.open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def run_worker(serves: int = 0) -> int:
    """Run the worker to its end, in a group of its own; return its exit status. It never outlives this call."""
    connection.close()
    parent = os.getpid()
    process = subprocess.Popen(
        build_command(serves),
        stdin=subprocess.DEVNULL,
        cwd=settings.BASE_DIR,
        env=build_environment(),
        start_new_session=True,
        preexec_fn=lambda: die_with_parent(parent, signal.SIGTERM),
    )
    record = Path(settings.ENVARIUM_HOME) / "run" / ("serving-worker.json" if serves else "training-worker.json")
    if record.parent.is_dir():
        record.write_text(json.dumps(identify_process(process.pid)))
    try:
        return process.wait()
    finally:
        _end_process(process)
        record.unlink(missing_ok=True)


def _end_process(process: subprocess.Popen[bytes]) -> None:
    """Terminate the process, giving it time to store a checkpoint; then kill all of its group."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=STOP_SECONDS)
    kill_group(process)


def end_workers_below() -> int:
    """Terminate the training workers below this process; return how many there were."""
    count = 0
    for child in psutil.Process().children(recursive=True):
        try:
            if MODULE in child.cmdline():
                child.terminate()
                count += 1
        except psutil.Error:
            continue
    return count
