"""Tasks that a golden state judges: made of their reference, shown beside the start, with their volatile places.

Every change makes a further revision of the task, which is audited anew, and stands in the audit log. What a golden
state is: `synthesis/verifiers/golden`.
"""
