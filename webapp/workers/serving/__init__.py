"""Serving: a checkpoint behind a server at a worker, reached through this site as a model like any other.

A worker may be behind NAT, so this site never calls it: it claims a deployment (`deployment_claims.py`), asks for
requests by long poll and sends each answer (`request_queue.py`, kept in the broker while a client waits). Clients of
the model ask this site (`api.py`, OpenAI's chat API) by the endpoint that `webapp/endpoints/served_models.py` keeps:
rollouts, batches, judges and users of training choose it as any other.

`deployments.py` starts and stops deployments, `deployment_claims.py` gives them out, renews, loses and ends them under
an attempt number, as for training jobs. A request whose worker was lost is answered 503 with Retry-After: asked again,
it goes to the worker that serves the model by then, and an attempt of an agent that cannot go on is an infrastructure
error, never a reward of 0.

The other side of the API runs `training/worker/serving/`.
"""
