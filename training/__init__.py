"""Training: SFT and RL on datasets of tasks and trajectories; framework-free, runs on a GPU machine without a database.

Modules that need no torch: `config/` and `presets/` (settings; each value is published or Envarium's own), `dataset/`,
`memory.py` (memory of each GPU, values of `auto`), `schedule.py` (horizon at a step), `sampler.py` (tasks of a step),
`rewards.py`, `metrics.py` (the append-only record: one writer, gapless numbers, a tailing reader), `job.py` (a job read
from files), `worker/`.

From reward to loss (`objective/`). An attempt becomes a reward, or None with a reason (`rewards.score_attempt`);
`rows.build_rows` turns a step's attempts into tensors with ids that are equal on every rank.
`advantages.step_advantages` gathers the rows of all ranks and micro batches, asks `masks.build_masks` which rows count,
and returns each rank's own rows. `losses.policy_loss` takes a micro batch and a divisor that was summed
(`count_local_units`) over the update. A row that does not count is removed before the arithmetic, so that not even a
NaN in it changes anything. Everything is checked against values computed by hand, numpy, finite differences and TRL's
code (`tests/training/`, skipped if the extra `train` is not installed).

A step of RL (`step.make_step`): tasks are drawn from the sampler's state, all ranks make attempts (`attempts.py`,
through `synthesis.rollout`), learn how each ended and get the tokens that they train on; groups of equal rewards are
drawn again (dynamic sampling), with the same list on every rank. An attempt's `policy.TokenPolicy` renders the first
prompt once; afterwards only ids are carried forward: the model's own tokens, and the template's suffix for each message
it receives. Its `Trace` (ids, log-probabilities, which tokens are the model's own) is the training data; if earlier
reasoning is stripped (`turn_policy.TurnPolicy`), it is one sequence per turn. `trainer.AgentTrainer` gives TRL this
rank's share through `rollout_func`, replaces its advantages and masks, and computes the loss by `losses.policy_loss`;
the rows of TRL's dataset are placeholders. Each checkpoint contains the sampler's state, so a resumed job tries the
same tasks. `step_record.py` summarizes a step's attempts in numbers, `evaluate.py` attempts a held-out split.

Chat templates (`templates.py`): a template must render tools, be prefix-preserving on `chat.sample_conversations`, and
be readable; otherwise TRL's training form of it replaces it and is saved with the model. SFT builds its labels piece by
piece, as a policy would carry them, when a sample is used (`supervised/`).

Placement of a model (`placement/`): copies on each rank, or spread by FSDP2; micro batches of a budget of tokens.

A job. A worker starts `python -m training.launch FOLDER` on a folder with `job.json` (`job.JobFile`); `job_setup.py`
assembles an SFT or RL job. The child process writes `record.jsonl` (numbers, events, artefacts),
`rollouts/step-N.jsonl.gz`, `checkpoints/checkpoint-N`, at the end `model/` and `result.json`, and ends with a status of
`job.Exit`. The file `stop` or SIGTERM ends it within a step: attempts under way are cancelled and not trained on.
`lifeline.py` ends it together with its worker.
"""
