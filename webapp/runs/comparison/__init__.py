"""Comparison of up to ten training jobs: curves over each other, the settings that differ, intervals over seeds.

Jobs that differ by their seed alone are one `Arm` (`arms.py`): one line with an interval over its seeds
(`intervals.py`). `lines.py` builds the lines, `table.py` the settings and results beside each other.
"""
