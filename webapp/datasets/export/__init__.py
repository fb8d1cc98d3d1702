"""Export of frozen datasets: files that other trainers and tools read, made by a job and kept under their hash.

`record_shapes.py` names the forms, which kind of dataset each suits, and how its files are loaded; `converters.py`
makes records of frozen rows and finds the state patches for ATIF, `columns.py` and `file_writers.py`
write JSON Lines and Parquet; `package.py` makes a package of tasks for `verifiers`. `files.py` writes one export into a
folder, for the job (`export_job.py`, which packs it) and for `manage.py export_dataset`. The same dataset, form and
format give the same bytes: an export does not contain when or by whom it was made. A package holds sources of Envarium
too, and its version names them.
"""
