"""Foreign files to records and back, one module a format.

An importer gives records (`records.py`), which know neither Django nor the sandbox, or failures with place and reason;
whatever the file looked like, the same services save them. `values.py` reads fields strictly, `files.py` opens a file
within bounds, `signatures.py` fills in what a source says of its tools. `envscaler_export.py` writes records back
equal to what came in.

`sft.py` turns a `Conversation` into records for supervised fine-tuning: TRL's, ShareGPT's, Alpaca's.
`atif.py` writes one as a trajectory of Harbor's interchange format; `atif_reader.py` reads such trajectories, whoever
wrote them, as runs without an environment.
"""
