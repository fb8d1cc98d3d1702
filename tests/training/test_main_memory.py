"""How much main memory a process may use, by its control groups of both versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from training.main_memory import main_memory


@pytest.mark.parametrize(
    ("membership", "files", "limit"),
    [
        ("0::/pod/trainer\n", {"memory.max": "max", "pod/memory.max": str(3 << 20), "pod/trainer/memory.max": "max"},
         3 << 20),
        ("0::/host/path/of/it\n", {"memory.max": str(5 << 20)}, 5 << 20),
        ("5:cpu:/\n4:memory:/job\n0::/\n", {"memory/job/memory.limit_in_bytes": str(7 << 20)}, 7 << 20),
        ("0::/\n", {"memory.max": str(2**62)}, 0),
        ("", {}, 0),
    ],
)  # fmt: skip
def test_main_memory_is_the_computers_or_what_a_control_group_allows(
    tmp_path: Path, membership: str, files: dict[str, str], limit: int
) -> None:
    told = tmp_path / "cgroup"
    told.write_text(membership)
    for name, text in files.items():
        (tmp_path / "mount" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mount" / name).write_text(text + "\n")
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert main_memory(told, tmp_path / "mount") == (limit or whole)
