"""Serving by a worker (`python -m training.worker --serve`): checkpoints behind servers, which are its children.

`slots.py` claims deployments, one per slot; `deployment.py` serves one: its files are fetched as a job's are, its
server (`model_server.py`: vLLM on a GPU, else `training.chat_server`) is started below a guard that ends it with this
worker (`guard.py`), requests are taken by long polling and each answer is sent when it is ready. Nothing connects to
this machine. The site notifies the callers of lost requests: the heartbeats list those that this worker holds.
"""
