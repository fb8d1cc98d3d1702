"""Synthesis in batches: what is to be made, how far it is, every call to an LLM, and the jobs that carry it out."""
