"""Who tests, checks, uses, solves and judges where no LLM does: each sees only what the prompt shows."""
