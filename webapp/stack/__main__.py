"""`python -m webapp.stack`: start everything that Envarium needs; Ctrl-C stops it."""

from __future__ import annotations

import sys
import time

from webapp.stack import config, services
from webapp.stack.config import Config
from webapp.stack.errors import Interrupted, StackError
from webapp.stack.home import Home, HomeLock
from webapp.stack.postgres import Postgres
from webapp.stack.process import end_survivor, find_survivors, truncate_log
from webapp.stack.supervisor import Supervisor, print_line
from webapp.stack.valkey import Valkey

READY_SECONDS = 120.0


def main() -> int:
    """Run until stopped. Return 0 after a requested stop, 1 if the start failed."""
    try:
        configuration = config.read_config()
        home = Home(configuration.home)
        home.prepare()
        lock = HomeLock(home)
        lock.take(configuration.url)
        home.forget_urls()
    except StackError as error:
        return print_refusal(error)
    supervisor = Supervisor(home)
    supervisor.listen()
    try:
        start_stack(supervisor, configuration, home)
        supervisor.watch()
    except Interrupted:
        print_line("\nStopping (Ctrl-C again to force it)")
        supervisor.stop()
        print_line("Envarium has stopped; everything it keeps is in " + str(home.path))
    except StackError as error:
        code = print_refusal(error)
        supervisor.stop()
        return code
    finally:
        home.forget_urls()
        supervisor.stop()
        lock.release()
    return 0


def print_refusal(error: StackError) -> int:
    print(f"Envarium did not start.\n{error}", file=sys.stderr, flush=True)
    return 1


def start_stack(supervisor: Supervisor, asked: Config, home: Home) -> None:
    """Start everything and print the result. Raises StackError."""
    began = time.monotonic()
    config.check_port(asked.port)
    config.check_given_servers(asked)
    print_line(f"Envarium starts; its data and logs are in {home.path}")
    for name, process in find_survivors(home.records):
        print_line(f"  stopping {name}, left over from a run that was killed")
        end_survivor(name, process)
    for path in home.logs.glob("*.log"):
        truncate_log(path, 1024 * 1024)
    database_url = asked.database_url or start_postgres(supervisor, home)
    broker_url = asked.broker_url or start_valkey(supervisor, home)
    environment = config.build_child_environment(asked, database_url, broker_url, home.secret("secret-key"))
    if not asked.production:
        home.secret("demo-password", 12)
    home.store_urls(database_url, broker_url)
    supervisor.run(services.build_prepare_service(environment), "Preparing the database")
    supervisor.start(
        [
            services.build_web_service(environment, asked.port),
            *(
                services.build_worker_service(environment, queue, size, home.records)
                for queue, size in services.WORKERS.items()
            ),
            services.build_beat_service(environment),
        ],
        "site and workers",
    )
    await_health(supervisor, asked.port)
    print_line(f"Envarium is ready at {asked.url}")
    if not asked.production:
        print_line(f"Log in as demo with the password {home.secret('demo-password')}")
    if asked.training:
        supervisor.later([services.build_worker_service(environment, services.GPU, services.GPU_JOBS, home.records)])
    print_line(f"Logs: {home.logs}   (ready after {time.monotonic() - began:.1f} s; Ctrl-C stops)")


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
    """Wait until the site reports that it is healthy. Raises StackError with what is missing, after `READY_SECONDS`."""
    began = shown_at = time.monotonic()
    while (health := services.fetch_health(port)).code != 200:
        now = time.monotonic()
        if now - began > READY_SECONDS:
            raise StackError(f"The site is up but not well: {health.missing()}. Its logs are in {supervisor.home.logs}")
        if now - shown_at > 5:
            shown_at = now
            print_line(f"  waiting: {health.missing()}")
        supervisor.pause()
        supervisor.tend()


if __name__ == "__main__":
    sys.exit(main())
