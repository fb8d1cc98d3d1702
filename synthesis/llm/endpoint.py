"""An endpoint: its address, its key, and its limits."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator

from synthesis.contracts import Frozen
from synthesis.llm.reach import Reach

StructuredForm = Literal["none", "json_object", "json_schema"]
"""What of `response_format` a server honours: nothing, that a reply is some JSON object, or its whole schema."""


class Endpoint(Frozen):
    """An OpenAI-compatible server.

    `timeout_s` is how long it may be silent: before a reply, and amid one that it streams. `deadline_s` is for the
    beginning of a reply with all retries and the pauses between them; waiting for a turn among `max_concurrency` counts
    to neither. A `base_url` that is not a plain http(s) address, or that holds a password, is a ValueError
    (pydantic's).
    """

    name: str
    base_url: str
    api_key: SecretStr = SecretStr("")
    timeout_s: float = Field(default=120.0, gt=0)
    deadline_s: float = Field(default=600.0, gt=0)
    max_concurrency: int = Field(default=8, ge=1)
    max_retries: int = Field(default=4, ge=0, le=20)
    structured: StructuredForm = "none"
    """What it is known to hold its models to, by `response_format`."""
    reply_bytes: int = Field(default=4 * 1024 * 1024, ge=1_024)
    left_out: dict[str, dict[str, str]] = Field(default_factory=dict)
    """By model the parameters that it is known to refuse, each with the name that goes in its place, or nothing."""
    reach: Reach | None = None
    """Where its name may lead, looked at for each connection; None: anywhere."""

    @field_validator("base_url")
    @classmethod
    def _plain(cls, value: str) -> str:
        parts = urlsplit(value.strip())
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("an endpoint's address starts with http:// or https:// and names a host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("an endpoint's address holds no user or password; give the key in its own field")
        if parts.query or parts.fragment:
            raise ValueError("an endpoint's address has no ? and no #")
        return value.strip().rstrip("/")

    @field_validator("api_key")
    @classmethod
    def _sendable(cls, value: SecretStr) -> SecretStr:
        text = value.get_secret_value().strip()
        if not text.isascii() or not text.isprintable():
            raise ValueError("a key consists of printable ASCII characters")
        return SecretStr(text)
