"""Export of trajectories as training data: selected, filtered, written with a manifest.

`record_source.py` takes facts and conversations from rows, a few at a time; `filters.py` applies the filters of
`synthesis.tasks.trajectory_filters`, none of which asks a judge here; `lines.py` writes lines in a format of
`synthesis/formats/sft.py` and builds the manifest; `archive.py` makes the zip while it is sent, for page, API and job
(`services.py`). `manage.py export_sft` writes the two files. Datasets take trajectories through the same filters.
"""
