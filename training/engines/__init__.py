"""Engines that generate tokens: a model in this process, vLLM in this process, or a vLLM server.

All of them continue each call by itself: an attempt goes on when its own turn is done (`GenerationEngine` of
`training.policy`). `local.py` runs the model itself in a batch that is never complete, `in_process.py` steps vLLM's
engine, `served.py` asks a server over HTTP (`http.py`). `choice.py` says which one a job gets and why it may not, and
`weights.py` how the policy's weights reach it between steps.
"""
