"""Datasets: frozen selections of tasks or trajectories, and uploaded files of training data.

`selection.py` has the filter (`DatasetSelection`) and the rows that it finds; `choice/` draws environments and reads
what other datasets exclude; `preview.py` previews a selection: how many rows it has, which are left out and why, both
sides of the split, and near splits if a side would be empty. `services.create_dataset` writes the row and queues the
job `freeze_dataset` (`freeze_job.py`): `row_source.py` reads a few rows at a time, tasks as rollouts here attempt them
(`webapp/trajectories/rollouts/plans.py`), trajectories through the export's filters
(`webapp/trajectories/export/filters.py`); `evidence/` executes them again and compares the sides, and
`training.dataset.freeze_dataset_folder` writes them to a folder that `storage.py` puts into the file store under a name
of its claim.

A row is `revision:PK` or `trajectory:PK`; environment, scenario and task have the names by which another site knows
them, so a split means the same there. All readers of a dataset go through `storage.py` (`list_dataset_files`,
`open_file`, `read_rows`, `open_folder`); `row_facts.py` reads one once, by its hash, for preflights.

`file_uploads.py` checks an uploaded file during the upload, a large one in the job `check_file`. It becomes a dataset
of source `file` when a training job or a user names it.

`export/` writes a frozen dataset in the formats of other tools; `manage.py export_dataset` does it without a job.
"""
