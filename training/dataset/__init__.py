"""Datasets: frozen, hashed selections of tasks or trajectories, split by a unit that their manifest names. No torch.

Rows are JSON lines in TRL's conversational form. `freeze_dataset_folder` writes a dataset's folder and `read_rows`
reads it; `check_upload` checks an external file line by line.
"""

from training.dataset.behaviour import hash_behaviour
from training.dataset.files import Manifest, SplitSide, freeze_dataset_folder, read_manifest, read_rows
from training.dataset.report import ApartBy, ApartFrom, DatasetReport, ExecutionReport, NearDuplicateReport
from training.dataset.rows import DatasetKind, Row, RowOrigin, TaskRow, TrajectoryRow, build_trajectory_rows
from training.dataset.split import (
    LEVELS,
    Names,
    SideName,
    Split,
    SplitUnit,
    assign_side,
    assign_unit_side,
    get_row_names,
    get_unit_names,
    serialize_unit,
)
from training.dataset.upload_check import (
    LineProblem,
    UploadLimits,
    UploadReport,
    check_upload,
    drop_lines,
    parse_line,
)

__all__ = [
    "LEVELS",
    "ApartBy",
    "ApartFrom",
    "DatasetKind",
    "DatasetReport",
    "ExecutionReport",
    "LineProblem",
    "Manifest",
    "Names",
    "NearDuplicateReport",
    "Row",
    "RowOrigin",
    "SideName",
    "Split",
    "SplitSide",
    "SplitUnit",
    "TaskRow",
    "TrajectoryRow",
    "UploadLimits",
    "UploadReport",
    "assign_side",
    "assign_unit_side",
    "build_trajectory_rows",
    "check_upload",
    "drop_lines",
    "freeze_dataset_folder",
    "get_row_names",
    "get_unit_names",
    "hash_behaviour",
    "parse_line",
    "read_manifest",
    "read_rows",
    "serialize_unit",
]
