"""Engines that generate tokens: a model in this process, or a vLLM server.

`local.LocalMaker` waits until all attempts under way have asked and continues them as one batch, token by token with
one number of each attempt's own seed, so that who shares a batch changes nothing. `served.py` is for models that are
not under training.
"""
