"""`python -m webapp.stack`: everything that Envarium needs, up in one go; Ctrl-C stops it."""

from __future__ import annotations

import sys
import time

from webapp.stack import config, services
from webapp.stack.config import Config
from webapp.stack.errors import Interrupted, StackError
from webapp.stack.home import Home, HomeLock
from webapp.stack.postgres import Postgres
from webapp.stack.process import bound_log, end_survivor, survivors
from webapp.stack.supervisor import Supervisor, show
from webapp.stack.valkey import Valkey

READY_SECONDS = 120.0


def main() -> int:
    """Run until stopped. 0 after a stop that was asked for, 1 when the start failed."""
    try:
        asked = config.read()
        home = Home(asked.home)
        home.prepare()
        lock = HomeLock(home)
        lock.take(asked.url)
        home.forget_urls()
    except StackError as error:
        return refuse(error)
    supervisor = Supervisor(home)
    supervisor.listen()
    try:
        begin(supervisor, asked, home)
        supervisor.watch()
    except Interrupted:
        show("\nStopping (Ctrl-C again to force it)")
        supervisor.stop()
        show("Envarium has stopped; everything it keeps is in " + str(home.path))
    except StackError as error:
        code = refuse(error)
        supervisor.stop()
        return code
    finally:
        home.forget_urls()
        supervisor.stop()
        lock.release()
    return 0


def refuse(error: StackError) -> int:
    print(f"Envarium did not start.\n{error}", file=sys.stderr, flush=True)
    return 1


def begin(supervisor: Supervisor, asked: Config, home: Home) -> None:
    """Bring everything up and say so. Raises StackError."""
    began = time.monotonic()
    config.check_port(asked.port)
    config.check_given(asked)
    show(f"Envarium starts; its data and logs are in {home.path}")
    for name, process in survivors(home.records):
        show(f"  stopping {name}, left over from a run that was killed")
        end_survivor(name, process)
    for path in home.logs.glob("*.log"):
        bound_log(path, 1024 * 1024)
    database_url = asked.database_url or start_postgres(supervisor, home)
    broker_url = asked.broker_url or start_valkey(supervisor, home)
    environment = config.child_environment(asked, database_url, broker_url, home.secret("secret-key"))
    if not asked.production:
        home.secret("demo-password", 12)
    home.tell_urls(database_url, broker_url)
    supervisor.run(services.prepare(environment), "Preparing the database")
    supervisor.start(
        [
            services.web(environment, asked.port),
            *(services.worker(environment, queue, size, home.records) for queue, size in services.WORKERS.items()),
            services.beat(environment),
        ],
        "site and workers",
    )
    await_health(supervisor, asked.port)
    show(f"Envarium is ready at {asked.url}")
    if not asked.production:
        show(f"Log in as demo with the password {home.secret('demo-password')}")
    if asked.training:
        supervisor.later([services.worker(environment, services.GPU, services.GPU_JOBS, home.records)])
    show(f"Logs: {home.logs}   (ready after {time.monotonic() - began:.1f} s; Ctrl-C stops)")


def start_postgres(supervisor: Supervisor, home: Home) -> str:
    postgres = Postgres(home.postgres, home.sockets())
    if postgres.is_new():
        supervisor.run(postgres.initdb(), "new database cluster")
        postgres.adopt()
    supervisor.start([postgres.service()], "PostgreSQL", seconds=60)
    postgres.create_database()
    return postgres.url()


def start_valkey(supervisor: Supervisor, home: Home) -> str:
    valkey = Valkey(home.valkey, home.sockets())
    supervisor.start([valkey.service()], "Valkey", seconds=60)
    return valkey.url()


def await_health(supervisor: Supervisor, port: int) -> None:
    """Wait until the site calls itself well. Raises StackError with what is not, after `READY_SECONDS`."""
    began = shown_at = time.monotonic()
    while (health := services.health(port)).code != 200:
        now = time.monotonic()
        if now - began > READY_SECONDS:
            raise StackError(f"The site is up but not well: {health.missing()}. Its logs are in {supervisor.home.logs}")
        if now - shown_at > 5:
            shown_at = now
            show(f"  waiting: {health.missing()}")
        supervisor.pause()
        supervisor.tend()


if __name__ == "__main__":
    sys.exit(main())
