"""Frames of tasks: what a right way may change, shown in words, widened with a reason, switched on for imports.

Every change makes a further revision of the task, which is audited anew, and stands in the audit log. What a frame is:
`synthesis/verifiers/frame.py`.
"""
