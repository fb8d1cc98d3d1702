"""Description of a worker's machine: devices, versions, available models, memory in use."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from training.config import EngineKind
from training.job import OPTIONAL_PACKAGES, VllmServer, is_model_name
from training.main_memory import read_main_memory

PACKAGES = ("torch", "trl", "transformers", "accelerate", "peft", "vllm")
_QUERY = ["nvidia-smi", "--format=csv,noheader,nounits"]


def list_gpus() -> list[dict[str, Any]]:
    """Return `{name, used_mib, total_mib, utilisation}` of each GPU that the driver shows; empty without a driver."""
    try:
        output = subprocess.run(
            [*_QUERY, "--query-gpu=index,uuid,name,memory.used,memory.total,utilization.gpu"],
            capture_output=True, text=True, timeout=10, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    cards = []
    for line in output.splitlines()[:64]:
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 6 and _is_visible(parts[0], parts[1]):
            used, total, busy = (_parse_number(part) for part in parts[3:])
            share = None if busy is None else min(max(busy / 100, 0.0), 1.0)
            card = {"name": parts[2][:100], "used_mib": used or 0, "total_mib": total or 0, "utilisation": share}
            cards.append(card)
    return cards


def _is_visible(index: str, uuid: str) -> bool:
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named is None or index in named.split(",") or any(uuid.startswith(n) for n in named.split(",") if len(n) > 4)


def _parse_number(text: str) -> int | None:
    try:
        return int(float(text))
    except ValueError:
        return None


def list_devices() -> list[dict[str, Any]]:
    """Return the devices of a trainer; empty means the CPU."""
    return [{"name": gpu["name"], "memory_mib": gpu["total_mib"]} for gpu in list_gpus()]


def read_main_memory_mib() -> int:
    """Return the main memory that a trainer may use, including memory held by other programs; 0 if unknown."""
    return read_main_memory() >> 20


def list_software() -> dict[str, str]:
    """Return versions of the packages that training needs, and of those that only some settings need."""
    versions = {"python": platform.python_version()}
    for name in (*PACKAGES, *OPTIONAL_PACKAGES):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def list_engines(server: VllmServer | None = None) -> list[EngineKind]:
    """Return the engines that can draw RL's tokens here; `server` is the vLLM server that the worker knows."""
    found: list[EngineKind] = ["transformers"]
    found += ["vllm"] if importlib.util.find_spec("vllm") else []
    return [*found, "vllm_server"] if server is not None else found


def list_models(folder: Path | None) -> list[str]:
    """Return names of the models below a folder: NAME or OWNER/NAME, for each `config.json`."""
    if folder is None or not folder.is_dir():
        return []
    names = [path.parent.relative_to(folder).as_posix() for path in folder.glob("*/config.json")]
    names += [path.parent.relative_to(folder).as_posix() for path in folder.glob("*/*/config.json")]
    return sorted(name for name in names if is_model_name(name))[:200]


def measure_usage(pid: int | None) -> dict[str, Any]:
    """Return the memory of the trainer with all its processes (of this process if none runs), and of each GPU."""
    return {"memory_mib": _measure_memory(pid or os.getpid()) >> 20, "gpus": list_gpus()}


def _measure_memory(pid: int) -> int:
    if importlib.util.find_spec("psutil") is None:
        return _read_resident_memory(pid)
    import psutil

    try:
        first = psutil.Process(pid)
        return sum(_read_rss(process) for process in [first, *first.children(recursive=True)])
    except psutil.Error:
        return 0


def _read_rss(process: Any) -> int:
    import psutil

    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _read_resident_memory(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
