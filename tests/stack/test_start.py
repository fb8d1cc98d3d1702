"""What a person meets before anything starts: clear refusals; and what the pieces promise each other."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fixtures.processes import ROOT, wait_for
from webapp.stack import account, config
from webapp.stack.errors import StackError
from webapp.stack.home import LONGEST_SOCKET, SOCKET_PATH_LIMIT, Home, HomeLock
from webapp.stack.postgres import Postgres
from webapp.stack.process import Child, Service, find_survivors, truncate_log
from webapp.stack.supervisor import LONGEST_READY_DELAY_SECONDS, Supervisor


def start(home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "BROKER_URL"}}
    return subprocess.run(
        [sys.executable, "-m", "webapp.stack"],
        env={**kept, "ENVARIUM_HOME": str(home), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_busy_port_is_named_with_its_holder_and_a_free_one_before_anything_starts(tmp_path):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        result = start(tmp_path, PORT=str(port))
    assert result.returncode == 1
    assert f"Port {port} is in use by process {os.getpid()}" in result.stderr
    assert "PORT=" in result.stderr.splitlines()[-1]
    assert not (tmp_path / "postgres").exists()


@pytest.mark.parametrize("value", ["0", "70000", "http"])
def test_a_port_that_cannot_be_meant_is_refused(tmp_path, value):
    result = start(tmp_path, PORT=value)
    assert result.returncode == 1
    assert f"PORT='{value}' is not a port" in result.stderr


def test_an_unreachable_server_is_named_by_its_variable_without_its_password(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port, nobody = str(probe.getsockname()[1]), probe.getsockname()[1]
    url = f"postgresql://me:hunter2secret@127.0.0.1:{nobody}/none"
    result = start(tmp_path, PORT=port, DATABASE_URL=url)
    assert result.returncode == 1
    assert "DATABASE_URL is set, but no PostgreSQL answers there" in result.stderr
    assert "hunter2secret" not in result.stderr + result.stdout
    result = start(tmp_path, PORT=port, BROKER_URL=f"redis://:hunter2secret@127.0.0.1:{nobody}/0")
    assert "BROKER_URL is set, but no Redis or Valkey answers there" in result.stderr
    assert "hunter2secret" not in result.stderr + result.stdout


def test_secrets_are_random_private_and_kept(tmp_path):
    home, other = Home(tmp_path / "a"), Home(tmp_path / "b")
    home.prepare()
    other.prepare()
    assert home.secret("secret-key") == home.secret("secret-key") != other.secret("secret-key")
    assert len(home.secret("secret-key")) >= 40
    assert (home.path / "secret-key").stat().st_mode & 0o777 == 0o600


def test_the_lock_has_one_holder_and_names_it(tmp_path):
    home = Home(tmp_path)
    first, second = HomeLock(home), HomeLock(home)
    first.take("http://127.0.0.1:9")
    with pytest.raises(StackError, match=rf"process {os.getpid()}, at http://127.0.0.1:9"):
        second.take("http://127.0.0.1:10")
    assert json.loads((tmp_path / "lock").read_text())["url"] == "http://127.0.0.1:9"
    first.release()
    second.take("http://127.0.0.1:10")
    second.release()


def test_a_home_with_a_long_path_keeps_its_sockets_elsewhere(tmp_path):
    deep = Home(tmp_path / ("x" * 60) / ("y" * 60))
    deep.prepare()
    folder = deep.sockets()
    try:
        assert len(os.fsencode(folder)) + len(LONGEST_SOCKET) <= SOCKET_PATH_LIMIT
        assert folder.stat().st_mode & 0o066 == 0
        assert deep.sockets() == folder
    finally:
        folder.rmdir()


def test_a_socket_folder_of_somebody_else_is_refused(tmp_path, monkeypatch):
    deep = Home(tmp_path / ("x" * 60) / ("y" * 60))
    deep.prepare()
    folder = deep.sockets()
    target = tmp_path / "elsewhere"
    target.mkdir()
    folder.rmdir()
    folder.symlink_to(target)
    try:
        with pytest.raises(StackError, match="another user"):
            deep.sockets()
    finally:
        folder.unlink()


def test_a_log_stays_under_its_limit_and_keeps_the_end(tmp_path):
    log = tmp_path / "web.log"
    with open(log, "ab") as writer:
        writer.write(b"old " * 1000)
        writer.flush()
        truncate_log(log, 100)
        assert log.stat().st_size == 0
        writer.write(b"new")
    assert log.read_bytes() == b"new"
    assert (tmp_path / "web.log.1").read_bytes() == (b"old " * 25)


def test_a_recorded_number_of_another_process_is_not_taken_for_ours(tmp_path):
    (tmp_path / "web.json").write_text(json.dumps({"pid": os.getpid(), "started": 5.0}))
    (tmp_path / "beat.json").write_text("{ half a reco")
    assert find_survivors(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_crashing_service_is_given_up_with_the_end_of_its_log(tmp_path, capsys):
    home = Home(tmp_path)
    home.prepare()
    broken = Service("broken", [sys.executable, "-c", "print('the reason'); raise SystemExit(3)"], lambda: False)
    supervisor = Supervisor(home)
    with pytest.raises(StackError, match=r"(?s)broken does not start \(exit code 3\).*the reason"):
        supervisor.start([broken], "broken")
    supervisor.stop()
    assert "it is started again in 0.5 s" in capsys.readouterr().out


def test_a_service_that_was_ready_is_never_long_away(tmp_path, capsys):
    home = Home(tmp_path)
    home.prepare()
    supervisor = Supervisor(home)
    supervisor.start([Service("steady", ["/bin/sleep", "60"], lambda: True)], "steady")
    entry = supervisor.managed[0]
    for _ in range(7):
        assert entry.child is not None
        entry.child.process.kill()
        while entry.child is not None:
            supervisor.tend()
        assert entry.start_at - time.monotonic() <= LONGEST_READY_DELAY_SECONDS
        entry.start_at = 0.0
        supervisor.tend()
    supervisor.stop()
    assert "started again in 0.5 s" in capsys.readouterr().out


def test_a_process_that_ignores_polite_signals_is_killed_with_its_group(tmp_path):
    home = Home(tmp_path)
    home.prepare()
    code = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)']);"
        "open(sys.argv[1], 'w').write(str(child.pid)); time.sleep(99)"
    )
    mark = tmp_path / "grandchild"
    deaf = Service(
        "deaf",
        [sys.executable, "-c", code, mark],
        lambda: mark.exists() and bool(mark.read_text()),
        stop_steps=((signal.SIGTERM, 0.3),),
    )
    supervisor = Supervisor(home)
    supervisor.start([deaf], "deaf")
    grandchild = int(mark.read_text())
    began = time.monotonic()
    supervisor.stop()
    assert 0.3 <= time.monotonic() - began < 5

    def ended() -> bool:
        try:
            return Path(f"/proc/{grandchild}/stat").read_text().split()[2] == "Z"
        except FileNotFoundError:
            return True

    wait_for(ended, what="the grandchild's end")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes accounts")
def test_postgres_runs_under_another_account_even_below_a_closed_folder(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    home = Home(closed / "home")
    home.prepare()
    chosen = account.choose_account(home.postgres)
    assert chosen is not None
    assert chosen.uid != 0
    assert chosen.capability is not None
    server = Postgres(home.postgres, home.sockets())
    supervisor = Supervisor(home)
    try:
        supervisor.run(server.initdb(), "initdb")
        server.adopt()
        supervisor.start([server.service()], "PostgreSQL")
        child = supervisor.managed[0].child
        assert child is not None
        assert f"Uid:\t{chosen.uid}\t" in Path(f"/proc/{child.pid}/status").read_text()
        server.create_database()
        assert server.version().startswith("18")
    finally:
        supervisor.stop()


def test_children_get_no_connection_settings_of_the_shell(monkeypatch):
    monkeypatch.setenv("PGHOST", "elsewhere")
    monkeypatch.setenv("OPENAI_API_KEY", "passed-on")
    found = config.build_child_environment(config.read_config(), "postgresql:///x", "redis://", "s" * 40)
    assert "PGHOST" not in found
    assert found["OPENAI_API_KEY"] == "passed-on"


def test_a_running_child_is_known_again_by_its_record(tmp_path):
    home = Home(tmp_path)
    home.prepare()
    child = Child(Service("sleeper", ["/bin/sleep", "60"], lambda: True), logs=home.logs, records=home.records)
    assert [name for name, _process in find_survivors(home.records)] == ["sleeper"]
    child.kill()
    assert wait_for(lambda: child.find_exit_code(), what="the end") == -signal.SIGKILL
    assert find_survivors(home.records) == []
