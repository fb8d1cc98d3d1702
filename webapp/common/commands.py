"""Helpers of the import and export commands: progress on stderr, one clear line and an exit code on failure."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import OperationalError

from synthesis.errors import InfrastructureError, InputError
from webapp.common.templatetags.show import plain

BAD_INPUT = 2
BAD_HOUSE = 3
STOPPED = 130


@contextmanager
def report_in_one_line() -> Iterator[None]:
    """Turn an error that the user can act on into one line: exit code 2 for the input, 3 for sandbox and database,
    130 when Ctrl-C stopped it."""
    try:
        yield
    except KeyboardInterrupt:
        line = "Stopped. What was stored by then stays; start it again for the rest."
        raise CommandError(line, returncode=STOPPED) from None
    except InputError as error:
        raise CommandError(str(error), returncode=BAD_INPUT) from error
    except InfrastructureError as error:
        raise CommandError(str(error), returncode=BAD_HOUSE) from error
    except OperationalError as error:
        line = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        raise CommandError(f"The database cannot be used: {line}", returncode=BAD_HOUSE) from error


def report_frames(write: Callable[[str], object], result: dict[str, Any]) -> None:
    """Report the frames that were made, if any were requested."""
    frames = result.get("frames")
    if frames is None:
        return
    for item in frames["failed"]:
        write(f"no frame made, {plain(item['place'])}: {plain(item['reason'])}")
    write(
        f"frames: {frames['made']} made, {frames['had_one']} had one, "
        f"{frames['no_reference']} without a reference, {len(frames['failed'])} failed"
    )


def parse_source_name(text: str) -> str:
    """Return the `--source` of a command, as argparse checks it."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,32}", text):
        raise ArgumentTypeError("1 to 32 letters, digits, dots, dashes or underscores")
    return text


def require_known_source(source: str, known: Iterable[str]) -> None:
    """Raise `InputError` if nothing is stored under a source that a command was given; empty means all."""
    known = sorted(set(known))
    if source and source not in known:
        told = ", ".join(known) or "none, as nothing is here yet"
        raise InputError(f"Nothing is kept under the source {source!r}. Known sources: {told}.")


def make_progress_writer(write: Callable[[str], Any]) -> Callable[[int, int, str], None]:
    """Return a progress callback that writes at most one line a second, and the same line again at most every 15
    seconds."""
    last, written = time.monotonic(), ""

    def write_progress(done: int, total: int, note: str) -> None:
        nonlocal last, written
        now, line = time.monotonic(), f"{done} of {total}: {note}"
        if now - last >= (15 if line == written else 1) and done < total:
            last, written = now, line
            write(line)

    return write_progress


def report_failures(write: Callable[[str], Any], kind: str, failed: Iterable[dict[str, str]]) -> None:
    for item in failed:
        write(f"{kind} not imported, {plain(item['place'])}: {plain(item['reason'])}")


def dump_json(result: dict[str, Any]) -> str:
    return json.dumps(result)


def write_file(target: Path, pieces: Iterable[str]) -> None:
    """Write a file whole or not at all. Raises `InputError`."""
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror or error}).") from error
    part = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.writelines(pieces)
        part.chmod(0o644)
        part.replace(target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror or error}).") from error
    finally:
        part.unlink(missing_ok=True)
