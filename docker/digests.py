"""Digests of the container images of today, written into docker/.env: `make images`. Standard library only.

An image's name may mean another image tomorrow, its digest never does. Compose and the Dockerfile take nothing else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

IMAGES = {
    "ENVARIUM_PYTHON_IMAGE": "python:3.12-slim",
    "ENVARIUM_GPU_PYTHON_IMAGE": "python:3.12",  # with the C compiler that Triton calls
    "ENVARIUM_POSTGRES_IMAGE": "postgres:18",
    "ENVARIUM_VALKEY_IMAGE": "valkey/valkey:9",
}
SETTINGS = Path(__file__).resolve().parent / ".env"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def digest(image: str) -> str:
    """What the registry holds under a name, for all platforms together. Ends the program where it cannot be known."""
    command = ["docker", "buildx", "imagetools", "inspect", image, "--format", "{{json .Manifest}}"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        sys.exit("Docker is not installed here; nothing was written. Run this where the containers are to run.")
    try:
        found = str(json.loads(asked.stdout)["digest"])
    except (ValueError, KeyError, TypeError):
        found = ""
    if asked.returncode != 0 or not DIGEST.fullmatch(found):
        reason = asked.stderr.strip() or "no digest in its answer"
        sys.exit(f"The registry does not say what {image} is; nothing was written. Docker said: {reason}")
    return found


def renewed(text: str, pinned: dict[str, str]) -> str:
    """The text of a .env file with these lines in the place of their old ones, all else as it was."""
    kept = [line for line in text.splitlines() if line.partition("=")[0].strip() not in pinned]
    return "\n".join([*kept, *(f"{name}={image}" for name, image in pinned.items()), ""])


def main(settings: Path) -> None:
    pinned = {name: f"{image}@{digest(image)}" for name, image in IMAGES.items()}
    before = settings.read_text(encoding="utf-8") if settings.exists() else ""
    fresh = settings.with_name(".env.new")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(renewed(before, pinned))
    os.replace(fresh, settings)
    old = set(before.splitlines())
    for name, image in pinned.items():
        print(f"{name}={image}" + ("" if f"{name}={image}" in old else "  (new)"))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SETTINGS)
