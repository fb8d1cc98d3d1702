"""Install vLLM into an environment of its own (/opt/vllm), as docker/vllm.lock pins it. Standard library only.

It wants an older numpy than the site and the trainer have; a worker that serves starts it as a program, by
ENVARIUM_VLLM, and imports nothing of it.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

WHERE = Path("/opt/vllm")
LOCK = Path(__file__).resolve().parent / "vllm.lock"
HASHED = ("--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-compile", "--progress-bar", "off")
"""How pip installs pins: nothing else, no file with another hash, nothing that would have to be built here."""


def main() -> int:
    """Returns pip's status."""
    venv.EnvBuilder(with_pip=True, clear=True, symlinks=True).create(WHERE)
    command = [str(WHERE / "bin" / "python"), "-m", "pip", "install", *HASHED, "--requirement", str(LOCK)]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
