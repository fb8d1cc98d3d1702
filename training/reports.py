"""Reports of a run to a tracker beside Envarium's own record: trackio, W&B or TensorBoard, from the worker.

Destination and token are set in the worker's environment: `WANDB_API_KEY`, `HF_TOKEN`, `ENVARIUM_REPORT_PROJECT`
(default `envarium`) and `ENVARIUM_REPORTS_DIR` (files of W&B and TensorBoard). A job names only the tracker; one that
fails later is reported once and not used again.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from synthesis.errors import InputError
from training.metrics import Writer

Tracker = Literal["none", "trackio", "wandb", "tensorboard"]
PROJECT, FOLDER = "ENVARIUM_REPORT_PROJECT", "ENVARIUM_REPORTS_DIR"
TITLES = {"trackio": "trackio", "wandb": "W&B", "tensorboard": "TensorBoard"}
Values = Mapping[str, float | int | None]


class Report:
    """A run at a tracker. `log(step, values)` sends finite numbers, `close()` ends it."""

    def __init__(self, name: str, log: Callable[[int, dict[str, float]], None], close: Callable[[], None]) -> None:
        self.name, self._log, self._close = name, log, close
        self._writer: Writer | None = None

    def follow(self, writer: Writer) -> None:
        """Send all values that this writer records from now on."""
        self._writer = writer
        writer.heard = self.log

    def log(self, step: int, values: Values) -> None:
        """Send numbers of a step. The failure of a tracker is recorded once, and nothing more is sent."""
        known = {key: float(value) for key, value in values.items() if value is not None}
        if known:
            self._run_safely(lambda: self._log(step, known), step)

    def close(self) -> None:
        self._run_safely(self._close, 0)

    def _run_safely(self, act: Callable[[], None], step: int) -> None:
        """Run a call to a tracker. Boundary to foreign code that uses a network: training continues after any
        exception.
        """
        try:
            act()
        except Exception as error:
            writer, self._writer = self._writer, None
            if writer is None:
                return
            writer.heard = None
            writer.event(
                step, "warn", f"Nothing more is reported to {self.name}: {type(error).__name__}: {error}"[:600]
            )


def open_report(tracker: Tracker, folder: Path, config: Mapping[str, Any]) -> Report | None:
    """Return a run at the tracker, named after the attempt's folder; None if nothing is to be reported.

    Raises InputError: its package is not installed at this worker, or it fails to start (for example without a token).
    """
    if tracker == "none":
        return None
    title = TITLES[tracker]
    if importlib.util.find_spec(tracker) is None:
        raise InputError(
            f"report_to: {title} is not installed at this worker: `pip install {tracker}` there, or set report_to to "
            "none"
        )
    try:
        log, close = _BEGIN[tracker](folder, dict(config))
    except Exception as error:  # boundary to foreign code: each tracker has errors of its own
        raise InputError(
            f"report_to: {title} does not begin: {type(error).__name__}: {str(error)[:400]}. Its token belongs into "
            "the worker's environment, never into a job"
        ) from error
    return Report(title, log, close)


Parts = tuple[Callable[[int, dict[str, float]], None], Callable[[], None]]


def _start_trackio(folder: Path, config: dict[str, Any]) -> Parts:
    import trackio

    trackio.init(project=_get_project(), name=folder.name, config=config, resume="allow")
    return lambda step, values: trackio.log(values, step=step), trackio.finish


def _start_wandb(folder: Path, config: dict[str, Any]) -> Parts:
    import wandb

    where = _get_report_folder(folder)
    where.mkdir(parents=True, exist_ok=True)
    run = wandb.init(
        project=_get_project(), id=folder.name, name=folder.name, config=config, resume="allow", dir=str(where)
    )
    return lambda step, values: run.log(values, step=step), run.finish


def _start_tensorboard(folder: Path, config: dict[str, Any]) -> Parts:
    from torch.utils.tensorboard import SummaryWriter

    board = SummaryWriter(str(_get_report_folder(folder) / folder.name))
    board.add_text("config", f"```json\n{config}\n```")

    def log_scalars(step: int, values: dict[str, float]) -> None:
        for key, value in values.items():
            board.add_scalar(key, value, step)

    return log_scalars, board.close


def _get_report_folder(folder: Path) -> Path:
    """Return the folder for files of trackers: the attempt's own folder is removed when it has ended."""
    return Path(os.environ.get(FOLDER) or folder.parent.parent / "reports")


def _get_project() -> str:
    return os.environ.get(PROJECT) or "envarium"


_BEGIN: dict[str, Callable[[Path, dict[str, Any]], Parts]] = {
    "trackio": _start_trackio,
    "wandb": _start_wandb,
    "tensorboard": _start_tensorboard,
}
