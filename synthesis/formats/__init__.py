"""Conversion between foreign files and records, one module per format.

An importer yields records (`records.py`), which depend neither on Django nor on the sandbox, or failures with their
place and reason. The same services save the records of all formats. `values.py` reads fields strictly, `files.py` opens
a file within bounds, `signatures.py` derives the data of tools from source code. `envscaler_export.py` writes records
back equal to the import.

`sft.py` converts a `Conversation` to records for supervised fine-tuning: TRL's, ShareGPT's, Alpaca's. `atif.py` writes
one as a trajectory of Harbor's interchange format; `atif_reader.py` reads such trajectories of any author as runs
without an environment.
"""
