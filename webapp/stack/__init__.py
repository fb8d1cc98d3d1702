"""`make run`: Envarium's services as child processes of one supervisor, everything below one folder.

The supervisor (`supervisor.py`) starts them in tiers: PostgreSQL and Valkey (out of wheels), the preparation
(`prepare.py`: tables, first user, demo content), site, workers and clock (`services.py`). Children die with it, a lock
is held on `ENVARIUM_HOME` (`home.py`), readiness is probed for real, and crashed services are started again. The site
is several processes on one socket, forked from one parent (`web_processes.py`). `attach.py` lets `manage.py` use the
same servers, or starts PostgreSQL for the length of one command.

When the site is ready a Celery worker of the queue `gpu` is added (`ENVARIUM_TRAINING=off`: none), in a tier of its own
that is stopped first; its jobs are in `webapp/runs/local`.
"""
