"""Settings, all of them. Every value comes from one environment variable or is set here.

ENVARIUM_ENV is `development` (default) or `production`; production refuses to start on default secrets.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from webapp.common import env
from webapp.stack.install import CPU_INDEX

BASE_DIR = Path(__file__).resolve().parent.parent
ENVARIUM_HOME = Path(env.read_text("ENVARIUM_HOME", str(BASE_DIR / ".envarium"))).expanduser().absolute()
ENVARIUM_ENV = env.read_text("ENVARIUM_ENV", "development")
if ENVARIUM_ENV not in {"development", "production"}:
    raise ImproperlyConfigured(f"ENVARIUM_ENV={ENVARIUM_ENV!r}: use development or production.")
PRODUCTION = ENVARIUM_ENV == "production"

DEFAULT_SECRET = "development-only-not-a-secret"
SECRET_KEY = env.read_text("ENVARIUM_SECRET_KEY", DEFAULT_SECRET)
SECRET_KEY_FALLBACKS = env.read_words("ENVARIUM_OLD_SECRET_KEYS", [])
"""Secrets of before: what they sealed or signed is still read."""
DEBUG = env.read_boolean("ENVARIUM_DEBUG", False)
ALLOWED_HOSTS = env.read_words("ENVARIUM_ALLOWED_HOSTS", ["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.read_words("ENVARIUM_TRUSTED_ORIGINS", [])
TRUSTED_PROXIES = env.read_networks("ENVARIUM_TRUSTED_PROXIES")
"""Whose X-Forwarded-For is believed (`webapp/asgi.py`): addresses and networks; none by default."""
DEFAULT_PASSWORDS = {"envarium", "postgres", "password", "changeme", "valkey", "redis", "secret"}
DEFAULT_DATABASE_URL = "postgresql://envarium@127.0.0.1:5432/envarium"
DATABASE_URL = env.read_text("DATABASE_URL", DEFAULT_DATABASE_URL)
BROKER_URL = env.read_text("BROKER_URL", "redis://127.0.0.1:6379/0")
EVENTS_DATABASE_URL = env.read_text("ENVARIUM_EVENTS_DATABASE_URL")
"""Where DATABASE_URL is a transaction pooler: the database itself, for LISTEN."""


PLANNER = "-c random_page_cost=1.1"
"""The tables lie on an SSD or in memory: by the default of 4 (a turning disk) whole tables are read for fifty rows."""

POOL: dict[str, Any] = {"min_size": 1, "max_size": 8, "timeout": 10, "reconnect_timeout": 3}
"""Each try to connect waits twice as long as the one before it, for `reconnect_timeout` seconds; then the next request
tries anew. By the default of 300 a database that was away for minutes stays away for as long again."""


def build_database_settings(url: str) -> dict[str, Any]:
    """Return Django's database dict from any libpq URL, sockets (`?host=/dir`) and options included."""
    try:
        parts: dict[str, Any] = conninfo_to_dict(url)
    except ProgrammingError as error:
        raise ImproperlyConfigured(f"DATABASE_URL is not a PostgreSQL URL: {error}") from error
    connection = {key: str(parts.pop(key, "")) for key in ("dbname", "user", "password", "host", "port")}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": connection["dbname"] or "envarium",
        "USER": connection["user"],
        "PASSWORD": connection["password"],
        "HOST": connection["host"],
        "PORT": connection["port"],
        "CONN_HEALTH_CHECKS": True,  # a pooled connection outlives a restart of the server
        "OPTIONS": {"options": PLANNER, **parts, "pool": POOL},
        "TEST": {"NAME": f"test_{connection['dbname'] or 'envarium'}"},
    }


def refuse_default_secrets() -> None:
    if SECRET_KEY == DEFAULT_SECRET or len(SECRET_KEY) < 40:
        raise ImproperlyConfigured(
            "Production needs ENVARIUM_SECRET_KEY: 40 random characters or more, for example from "
            "`python -c 'import secrets; print(secrets.token_urlsafe(48))'`."
        )
    for name in ("DATABASE_URL", "BROKER_URL", "ENVARIUM_ALLOWED_HOSTS"):
        if not env.read_text(name):
            raise ImproperlyConfigured(f"Production needs {name}: the development default is not used there.")
    for name, url in (("DATABASE_URL", DATABASE_URL), ("BROKER_URL", BROKER_URL)):
        if urlsplit(url).password in DEFAULT_PASSWORDS:
            raise ImproperlyConfigured(f"{name} has a default password. Choose a random one.")
    if DEBUG:
        raise ImproperlyConfigured("ENVARIUM_DEBUG must be off in production: it shows source and settings.")


if PRODUCTION:
    refuse_default_secrets()

DATABASES = {"default": build_database_settings(DATABASE_URL)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.contrib.postgres",
    "django.forms",
    "django_htmx",
    "django_ace",
    "webapp.accounts",
    "webapp.common.lists",
    "webapp.common.events",
    "webapp.jobs",
    "webapp.endpoints",
    "webapp.webhooks",
    "webapp.taxonomy",
    "webapp.environments",
    "webapp.scenarios",
    "webapp.trajectories",
    "webapp.review",
    "webapp.labelling",
    "webapp.batches",
    "webapp.datasets",
    "webapp.runs",
    "webapp.workers",
    "webapp.edits",
    "webapp.pages",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "webapp.common.middleware.set_content_security_policy",
    "webapp.common.rest.problems.api_problems",
    "webapp.accounts.origin.record_request_origin",
    "webapp.common.error_responses.RefusalPages",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
ROOT_URLCONF = "webapp.urls"
ASGI_APPLICATION = "webapp.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "webapp.accounts.template_context.add_site_context",
            ],
            "builtins": ["webapp.common.templatetags.show", "webapp.common.templatetags.cells"],
            "libraries": {"show": "webapp.common.templatetags.show"},
        },
    },
]
FORM_RENDERER = "webapp.common.forms.rows.RowRenderer"
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["webapp.accounts.sessions.AccountBackend"]
SESSION_ENGINE = "webapp.accounts.sessions"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "accounts:login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "accounts:login"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION and not env.read_boolean("ENVARIUM_PLAIN_HTTP", False)
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True  # pages carry the CSRF token themselves
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
# Cookies know no ports: other sites on this host, further installations among them, must have other names.
INSTALLATION = hashlib.sha256(f"installation {[SECRET_KEY, *SECRET_KEY_FALLBACKS][-1]}".encode()).hexdigest()[:8]
_COOKIES = f"{'__Host-' if SESSION_COOKIE_SECURE else ''}envarium_{INSTALLATION}"
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = f"{_COOKIES}_session", f"{_COOKIES}_csrf"
KNOWN_BROWSER_COOKIE = f"envarium_{INSTALLATION}_known"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"  # no cookie that others overwrite
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if PRODUCTION else None
X_FRAME_OPTIONS = "DENY"
LANGUAGE_CODE = "en-us"
USE_I18N = False  # every page is English; translating each label of Django's costs time at each request
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "/static/"
STATIC_ROOT = Path(env.read_text("ENVARIUM_STATIC_ROOT", str(ENVARIUM_HOME / "static")))
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "webapp.taxonomy.static_files.PlotlyFinder",
]
WHITENOISE_USE_FINDERS = WHITENOISE_AUTOREFRESH = not PRODUCTION  # a checkout that is updated shows it
STORAGES = {
    "default": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(ENVARIUM_HOME / "files")},
    },
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if PRODUCTION
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
UPLOAD_LIMIT_MIB = env.read_integer("ENVARIUM_UPLOAD_LIMIT_MIB", 256, low=1, high=4096)
DISK_RESERVE_MIB = env.read_integer("ENVARIUM_DISK_RESERVE_MIB", 512, low=0, high=1_000_000)
"""With less room than this no job begins and no file is taken, so that the database always has some."""
OPENAI_BASE_URL = env.read_text("OPENAI_BASE_URL")
OPENAI_API_KEY = env.read_text("OPENAI_API_KEY")
ENDPOINT_HOSTS = env.read_words("ENVARIUM_ENDPOINT_HOSTS", [])
"""Hosts, or host:port, that requests may go to although they are inside a private network or without TLS."""
ROLLOUT_ATTEMPTS = env.read_integer("ENVARIUM_ROLLOUT_ATTEMPTS", 64, low=1, high=1000)
"""How many attempts one job may make at most."""
ROLLOUTS_AT_ONCE = env.read_integer("ENVARIUM_ROLLOUTS_AT_ONCE", 8, low=1, high=256)
ROLLOUT_SAMPLE = env.read_integer("ENVARIUM_ROLLOUT_SAMPLE", 2, low=0, high=1000)
"""How many attempts of each training step are executed again here; 0 believes every worker."""
API_REQUESTS_A_MINUTE = env.read_integer("ENVARIUM_API_REQUESTS_A_MINUTE", 1200, low=0, high=1_000_000)
"""Requests that one token may send before it has to wait; 0 is no limit."""
WORKER_REQUESTS_A_MINUTE = env.read_integer("ENVARIUM_WORKER_REQUESTS_A_MINUTE", 60_000, low=0, high=10_000_000)
"""The same for what training workers say of their work, and once more for the LLM requests of their jobs."""
SITE_URL = env.read_text("ENVARIUM_URL", "http://127.0.0.1:8000")
"""Address at which the worker beside the site reaches its API, and the site's processes the models of workers."""
TRAINING = env.read_boolean("ENVARIUM_TRAINING", True)
"""Off: no worker for training runs beside the site, and nothing is installed for it."""
TORCH_INDEX = env.read_text("ENVARIUM_TORCH_INDEX", CPU_INDEX)
"""Where torch's CPU build comes from on a machine without an NVIDIA GPU; `none`: from the usual index alone."""
_MEMORY_MIB = (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) >> 20
WEB_PROCESSES = env.read_integer(
    "ENVARIUM_WEB_PROCESSES", 1 if (os.cpu_count() or 1) == 1 or _MEMORY_MIB < 2048 else 2, low=1, high=64
)
"""How many processes answer requests (`webapp/stack/web_processes.py`)."""
DATA_UPLOAD_MAX_NUMBER_FIELDS = 2_000  # a bulk act names up to 500 rows, each with what was seen of it
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024
FILE_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024

JOB_LIMIT_SECONDS = env.read_integer("ENVARIUM_JOB_LIMIT_SECONDS", 3600, low=2, high=86_400)
"""A job that takes longer fails; one that does not hear of it is killed a minute later."""
JOB_MEMORY_MIB = env.read_integer(
    "ENVARIUM_JOB_MEMORY_MIB", min(max(_MEMORY_MIB // 4, 1024), 16_384), low=0, high=1 << 24
)
"""A job that needs more fails; 0: no limit. By default a quarter of this machine's memory, 1 to 16 GiB."""
CELERY = {
    "broker_url": BROKER_URL,
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    "task_ignore_result": True,
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "worker_prefetch_multiplier": 1,
    # A job's process ends with it, and with it what it loaded, opened and grew to: the next job finds none of that.
    "worker_max_tasks_per_child": 1,
    "worker_proc_alive_timeout": 30,  # a busy machine may take long to start a process, and killing it does not help
    "task_soft_time_limit": JOB_LIMIT_SECONDS,
    "task_time_limit": JOB_LIMIT_SECONDS + min(60, JOB_LIMIT_SECONDS),
    "task_default_queue": "llm",
    "task_create_missing_queues": False,
    "accept_content": ["json"],
    "worker_hijack_root_logger": False,
    "worker_enable_remote_control": False,
    # A job whose message is lost with the broker runs on: the lease on its row, not the message, is the claim.
    "worker_cancel_long_running_tasks_on_connection_loss": False,
    "broker_transport_options": {
        "visibility_timeout": 7200,
        "socket_keepalive": True,
        "socket_connect_timeout": 3,
        "socket_timeout": 10,
        "max_retries": 0,  # for senders: the reaper repeats what did not go out; workers retry by other settings
    },
}
JOB_LEASE_SECONDS = env.read_integer("ENVARIUM_JOB_LEASE_SECONDS", 30, low=2, high=3600)
JOB_MAX_ATTEMPTS = 6
TRAINING_LEASE_SECONDS = env.read_integer("ENVARIUM_TRAINING_LEASE_SECONDS", 30, low=2, high=3600)
"""A training worker that is silent for so long has lost its job to the next one."""
TRAINING_CHECKPOINT_GIB = env.read_integer("ENVARIUM_TRAINING_CHECKPOINT_GIB", 512, low=1, high=65_536)
"""What the files of one checkpoint may have together."""
TRAINING_ROLLOUTS_DAYS = env.read_integer("ENVARIUM_TRAINING_ROLLOUTS_DAYS", 30, low=1, high=36_500)
"""The attempts of training steps can be opened for so long; what lists show of them stays."""
TRAINING_CHECKPOINTS_DAYS = env.read_integer("ENVARIUM_TRAINING_CHECKPOINTS_DAYS", 30, low=1, high=36_500)
"""Checkpoints of a job that has ended stay for so long; the model that it ended with always."""

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": env.read_text("ENVARIUM_LOG_LEVEL", "INFO")},
    # It writes a line for each request to an LLM: a rollout has thousands.
    "loggers": {"httpx": {"level": "WARNING"}},
}
