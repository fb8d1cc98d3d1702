"""Writes what `test_trainer.py` compares TRL's private methods with: `python -m tests.training.private_parts`.

To be run after somebody has read what changed in them.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from pathlib import Path

from trl import GRPOTrainer

from training.trainer import CALLED, OVERRIDDEN, RESTS_ON

KNOWN = Path(__file__).with_name("private_parts.json")


def found() -> dict[str, dict[str, str]]:
    """Signature and SHA-256 of the source of each method that the trainer rests on."""
    parts = {}
    for name in sorted((*OVERRIDDEN, *CALLED, *RESTS_ON)):
        method = getattr(GRPOTrainer, name)
        source = inspect.getsource(method)
        parts[name] = {
            "signature": str(inspect.signature(method)),
            "sha256": hashlib.sha256(source.encode()).hexdigest(),
        }
    return parts


if __name__ == "__main__":
    KNOWN.write_text(json.dumps(found(), indent=1) + "\n", encoding="utf-8")
