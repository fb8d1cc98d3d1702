"""Further figures of audits."""
