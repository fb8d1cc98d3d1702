"""Training jobs: submitted over pages and the API, controlled, followed by curves and rollouts.

A form or a request becomes a `NewJob` (`spec.py`), which `launch/` resolves and checks; `services.create_job` does the
same and then writes. `openai/` spells OpenAI's resources. `readiness.py` queues a job once its data is frozen and the
job before it has succeeded. `preflight/matching.py` determines which workers could take a queued job and why it waits,
out of the candidates in `preflight/candidates.py`: apps above register sources of them when they are ready, and a job
keeps the public id of its worker, so that nothing here knows rows of workers.

`control.py` is all that a person may do with a job: at once if no worker holds it, else as a `wish` that the worker's
next heartbeat brings; it writes named columns, since workers increment others without its lock. `transitions.py`
determines the state of a job after an exit or a loss. Every change of a job's state locks its row. `topics.py`
publishes at most twice a second a topic, and the last change always.

`job_list.py` gives lists and the home page their numbers without reading curves, `job_summary.py` the strip of a job's
page, which is a function of its address: tab, headings, parts, range of steps. `checkpoint_files.py` finds the model a
job begins with and the state it resumes from. `curves/`, `rollouts/` and `local/` have descriptions of their own;
workers are an app above.
"""
