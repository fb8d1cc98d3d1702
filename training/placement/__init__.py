"""Placement of a model and its batches on devices: copies or shards (`model_placement.py`), and micro batches of a
budget of tokens (`micro_batches.py`)."""
