"""Wheel of tasks, programs and sources, byte-identical for equal tasks."""

from __future__ import annotations

import base64
import hashlib
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from synthesis.contracts import Frozen
from synthesis.portable.sources import BELOW, list_carried_files
from synthesis.portable.task_file import PortableTask, write_tasks

VERIFIERS = "verifiers>=0.4,<0.5"
NEEDS = (VERIFIERS, "pydantic>=2.12,<3", "openai>=2.50,<3", "httpx>=0.28,<1", "aiohttp>=3.14,<4")
PYTHON = ">=3.11,<3.15"
PIECE = 1 << 20
LARGE = 1 << 31
"""From here on an entry's size is written in 64 bits."""
DATA = f"{BELOW}/portable/data"
_INIT = '''"""{summary}"""

from {module}.envarium.portable.taskset import EnvariumEnv, EnvariumHarness, EnvariumTaskset

__all__ = ["EnvariumEnv", "EnvariumHarness", "EnvariumTaskset"]
'''


class PackageName(Frozen):
    """Name of a package: `id` as `verifiers` and pip use it (`envarium-boxes-3f2a`)."""

    id: str
    version: str
    summary: str

    @property
    def module(self) -> str:
        return self.id.replace("-", "_")

    @property
    def wheel(self) -> str:
        return f"{self.module}-{self.version}-py3-none-any.whl"


def build_package_id(name: str, ident: str) -> str:
    """Return an id for a package of something called `name`, made unique by `ident`."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")
    apart = re.sub(r"[^a-z0-9]+", "", ident.lower())[-8:]
    return "-".join(part for part in ("envarium", plain, apart) if part)


def write_package(
    folder: Path,
    named: PackageName,
    sides: Mapping[str, Iterable[PortableTask]],
    readme: Callable[[], str],
    licence: str,
) -> Path:
    """Write the wheel into a folder; return its path. `readme` is called when all tasks were seen; `licence` is the
    licence text of the sources.
    """
    target = folder / named.wheel
    with tempfile.TemporaryDirectory(prefix="envarium-package-") as data_folder:
        data = Path(data_folder)
        for side, rows in sides.items():
            write_tasks(data, side, rows)
        with zipfile.ZipFile(target, "w") as archive:
            contents = _list_contents(named, data, readme(), licence)
            record = [_pack_entry(archive, name, content) for name, content in contents]
            record_path = f"{_format_info_folder(named)}/RECORD"
            _pack_entry(archive, record_path, ("\n".join([*record, f"{record_path},,"]) + "\n").encode())
    return target


def _list_contents(named: PackageName, data: Path, readme: str, licence: str) -> Iterator[tuple[str, bytes | Path]]:
    """Yield every file of the wheel except RECORD, which comes last."""
    module, info = named.module, _format_info_folder(named)
    yield f"{module}/__init__.py", _INIT.format(summary=named.summary.replace('"', "'"), module=module).encode()
    for path, content in list_carried_files(module):
        yield f"{module}/{path}", content
    for file in sorted(path for path in data.rglob("*") if path.is_file()):
        yield f"{module}/{DATA}/{file.relative_to(data).as_posix()}", file
    yield f"{info}/licenses/LICENSE", licence.encode()
    yield f"{info}/METADATA", _format_metadata(named, readme).encode()
    yield f"{info}/WHEEL", b"Wheel-Version: 1.0\nGenerator: envarium\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    yield f"{info}/top_level.txt", f"{module}\n".encode()


def _format_info_folder(named: PackageName) -> str:
    return f"{named.module}-{named.version}.dist-info"


def _format_metadata(named: PackageName, readme: str) -> str:
    lines = ["Metadata-Version: 2.4", f"Name: {named.id}", f"Version: {named.version}"]
    lines += [f"Summary: {' '.join(named.summary.split())}", f"Requires-Python: {PYTHON}", "License-File: LICENSE"]
    lines += [*(f"Requires-Dist: {need}" for need in NEEDS), "Description-Content-Type: text/markdown", "", readme]
    return "\n".join(lines)


def _pack_entry(archive: zipfile.ZipFile, name: str, content: bytes | Path) -> str:
    """Write an entry without a time stamp, for reproducibility; return its line of RECORD."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    digest, size = hashlib.sha256(), 0
    large = isinstance(content, Path) and content.stat().st_size >= LARGE
    with archive.open(entry, "w", force_zip64=large) as packed:
        for piece in _read_pieces(content):
            digest.update(piece)
            size += len(piece)
            packed.write(piece)
    encoded_digest = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
    return f"{name},sha256={encoded_digest},{size}"


def _read_pieces(content: bytes | Path) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece
