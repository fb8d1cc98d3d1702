"""Rendering of forms: the rows of every form (`rows.py`), and the filters above a list (`filter_bar.py`)."""
