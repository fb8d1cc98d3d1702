"""The worker that carries training jobs out, beside the web app or far away: `python -m training.worker --help`.

It speaks HTTP only, without torch; the trainer is its child (`training.launch`). What it has not sent yet lies on disk.
"""

from training.worker.loop import main

__all__ = ["main"]
