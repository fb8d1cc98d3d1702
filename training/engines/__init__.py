"""Engines that generate tokens: a model in this process, or a vLLM server."""
