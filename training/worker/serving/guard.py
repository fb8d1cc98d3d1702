"""A guard of a server: `python -m training.worker.serving.guard LOCK COMMAND...` ends it when the lock is free.

The worker holds the lock as long as it lives (`training.lifeline`). Third-party servers check no lock themselves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from training.lifeline import end_with_holder


def main() -> int:
    """Run the command in this process's group; return its status."""
    path, *command = sys.argv[1:]
    end_with_holder(path, lambda status: os.killpg(os.getpgrp(), signal.SIGKILL))
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
