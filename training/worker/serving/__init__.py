"""Serving by a worker (`python -m training.worker --serve`): checkpoints behind servers, which are its children.

`slots.py` claims deployments, one a slot; `deployment.py` carries one out: its files are fetched as a job's are, its
server (`model_server.py`: vLLM on a GPU, else `training.chat_server`) is started below a guard that ends it with this
worker (`guard.py`), requests are taken by long poll and each answer is sent as it comes. Nothing connects to this
machine. What is lost on the way is told to whoever waits by the site, which knows what this worker holds by its beats.
"""
