"""Engines that generate tokens: a model in this process, vLLM in this process, or a vLLM server.

All of them continue each call by itself: an attempt continues when its own turn is done (`GenerationEngine` of
`training.policy`). `local.py` runs the model itself in a batch that requests join and leave, `in_process.py` steps
vLLM's engine, `served.py` asks a server over HTTP (`http.py`). `choice.py` selects and checks the engine of a job, and
`weights.py` transfers the policy's weights to it between steps.
"""
