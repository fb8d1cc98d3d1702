"""Serving: a checkpoint behind a server at a worker, reached through this site as a model like any other.

A worker may stand behind NAT, so nobody calls it: it claims a deployment (`deployment_claims.py`), asks for requests by
long poll and sends each answer (`request_queue.py`, kept in the broker while somebody waits). Whoever wants the model
asks this site (`api.py`, OpenAI's chat API) by the endpoint that `webapp/endpoints/served_models.py` keeps: rollouts,
batches, judges and users of training choose it as any other.

`deployments.py` starts and stops, `deployment_claims.py` gives out, renews, loses and ends under an attempt number, as
training jobs do. A request whose worker was lost is answered 503 with Retry-After: asked again, it goes to whoever
serves the model by then, and an attempt of an agent that cannot go on is an infrastructure error, never a reward of 0.

What runs on the other side: `training/worker/serving/`.
"""
