"""Datasets: frozen, hashed selections of tasks or trajectories, split by a unit that their manifest names. No torch.

Rows are JSON lines in TRL's conversational form. `freeze` writes a dataset's folder and `read_rows` reads it again;
`check_upload` looks at a file from outside line by line.
"""

from training.dataset.behaviour import behaviour_of
from training.dataset.files import Manifest, SplitSide, freeze, read_manifest, read_rows
from training.dataset.report import ApartBy, ApartFrom, DatasetReport, ExecutionReport, NearDuplicateReport
from training.dataset.rows import DatasetKind, Row, RowOrigin, TaskRow, TrajectoryRow, trajectory_rows
from training.dataset.split import (
    LEVELS,
    Names,
    SideName,
    Split,
    SplitUnit,
    names_of_row,
    names_of_unit,
    side_of,
    side_of_unit,
    unit_of,
)
from training.dataset.upload_check import (
    LineProblem,
    UploadLimits,
    UploadReport,
    check_upload,
    parse_line,
    without_lines,
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
    "behaviour_of",
    "check_upload",
    "freeze",
    "names_of_row",
    "names_of_unit",
    "parse_line",
    "read_manifest",
    "read_rows",
    "side_of",
    "side_of_unit",
    "trajectory_rows",
    "unit_of",
    "without_lines",
]
