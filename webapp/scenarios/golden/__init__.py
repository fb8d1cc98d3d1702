"""Tasks that a golden state judges: made from their reference, shown beside the start, with their volatile places.

Every change makes a further revision of the task, which is audited anew, and is written to the audit log. Golden states
themselves are defined in `synthesis/verifiers/golden`.
"""
