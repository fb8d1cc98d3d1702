"""Frames of tasks: what a right way may change, shown in words, widened with a reason, switched on for imports.

Every change makes a further revision of the task, which is audited anew, and is written to the audit log. Frames
themselves are defined in `synthesis/verifiers/frame.py`.
"""
