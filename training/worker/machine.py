"""What a worker tells of its machine: devices, versions, models at hand, memory in use."""

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
from training.main_memory import main_memory

PACKAGES = ("torch", "trl", "transformers", "accelerate", "peft", "vllm")
_QUERY = ["nvidia-smi", "--format=csv,noheader,nounits"]


def gpus() -> list[dict[str, Any]]:
    """`{name, used_mib, total_mib, utilisation}` of each GPU that the driver shows; none without one."""
    try:
        shown = subprocess.run(
            [*_QUERY, "--query-gpu=index,uuid,name,memory.used,memory.total,utilization.gpu"],
            capture_output=True, text=True, timeout=10, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    cards = []
    for line in shown.splitlines()[:64]:
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 6 and _visible(parts[0], parts[1]):
            used, total, busy = (_number(part) for part in parts[3:])
            share = None if busy is None else min(max(busy / 100, 0.0), 1.0)
            told = {"name": parts[2][:100], "used_mib": used or 0, "total_mib": total or 0, "utilisation": share}
            cards.append(told)
    return cards


def _visible(index: str, uuid: str) -> bool:
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named is None or index in named.split(",") or any(uuid.startswith(n) for n in named.split(",") if len(n) > 4)


def _number(text: str) -> int | None:
    try:
        return int(float(text))
    except ValueError:
        return None


def devices() -> list[dict[str, Any]]:
    """What a trainer would compute on; empty means the CPU."""
    return [{"name": gpu["name"], "memory_mib": gpu["total_mib"]} for gpu in gpus()]


def main_memory_mib() -> int:
    """Main memory that a trainer may use, what other programs hold of it included; 0 where the system does not say."""
    return main_memory() >> 20


def software() -> dict[str, str]:
    """Versions of what training stands on, and of what only some settings need."""
    versions = {"python": platform.python_version()}
    for name in (*PACKAGES, *OPTIONAL_PACKAGES):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def engines(server: VllmServer | None = None) -> list[EngineKind]:
    """What can draw RL's tokens here; `server` is the vLLM server that the worker knows."""
    found: list[EngineKind] = ["transformers"]
    found += ["vllm"] if importlib.util.find_spec("vllm") else []
    return [*found, "vllm_server"] if server is not None else found


def models(folder: Path | None) -> list[str]:
    """Names of the models below a folder: NAME or OWNER/NAME, wherever a `config.json` lies."""
    if folder is None or not folder.is_dir():
        return []
    names = [path.parent.relative_to(folder).as_posix() for path in folder.glob("*/config.json")]
    names += [path.parent.relative_to(folder).as_posix() for path in folder.glob("*/*/config.json")]
    return sorted(name for name in names if is_model_name(name))[:200]


def usage(pid: int | None) -> dict[str, Any]:
    """Memory of the trainer with all its processes (of this process where none runs), and each GPU's."""
    return {"memory_mib": _memory(pid or os.getpid()) >> 20, "gpus": gpus()}


def _memory(pid: int) -> int:
    if importlib.util.find_spec("psutil") is None:
        return _resident(pid)
    import psutil

    try:
        first = psutil.Process(pid)
        return sum(_rss(process) for process in [first, *first.children(recursive=True)])
    except psutil.Error:
        return 0


def _rss(process: Any) -> int:
    import psutil

    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
