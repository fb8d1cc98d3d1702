"""The engine of a batch: lanes that work on its items, calls to LLMs, spend, and what becomes of each item."""
