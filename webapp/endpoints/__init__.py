"""LLM endpoints: where the models are that agents, users and judges are played by."""
