"""How much main memory a process may use, by its control groups of both versions, and what a trainer makes of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from training.config import Supervised
from training.main_memory import read_main_memory


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
    assert read_main_memory(told, tmp_path / "mount") == (limit or whole)


@pytest.mark.slow  # loads torch
@pytest.mark.parametrize(("memory", "decided"), [(64 << 30, "off"), (16 << 20, "on"), (0, "off")])
def test_a_trainer_on_a_cpu_keeps_activations_where_they_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int, decided: str
) -> None:
    from training.placement import model_placement

    shape = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128}
    (tmp_path / "config.json").write_text(json.dumps(shape))
    monkeypatch.setattr(model_placement.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(model_placement, "read_main_memory", lambda: memory)
    placed = model_placement.decide_local_hardware(str(tmp_path), Supervised(max_length=64), "transformers")
    assert placed.hardware.gradient_checkpointing == decided
