"""Training: SFT and RL on datasets of tasks and trajectories; framework-free, runs on a GPU box that has no database.

Settings and what decides without computing need no torch: `config/` and `presets/` (every value published or ours),
`dataset/`, `memory.py` (what each GPU holds, what is `auto`), `schedule.py` (horizon at a step), `sampler.py` (which
tasks a step tries), `rewards.py`, `metrics.py` (the append-only record: one writer, gapless numbers, a tailing
reader), `job.py` (a job out of files), `worker/`.

From reward to loss (`objective/`). An attempt becomes a reward or None with a reason (`rewards.scored`); `rows.rows_of`
makes a step's attempts tensors with ids that are equal on every rank. `advantages.step_advantages` gathers the rows of
all ranks and micro batches, asks `masks.masks_of` who counts, and gives each rank its own rows. `losses.policy_loss`
takes a micro batch and a divisor that was added up (`local_units`) over the update. A row that does not count is taken
out before the arithmetic, so that not even NaN in it changes anything. Everything is checked against values worked by
hand, numpy, finite differences and TRL's code (`tests/training/`, skipped where the extra `train` is not installed).

A step of RL (`step.make_step`): tasks drawn from the sampler's state, attempts (`attempts.py`, through
`synthesis.rollout`) made by all ranks, which hear how each ended and get the tokens that they learn from, groups of
equal rewards drawn again (dynamic sampling), the same list everywhere. An attempt's `policy.TokenPolicy` renders the
first prompt once; afterwards only ids are carried forward: what the model drew, and the template's suffix for what it
was told. Its `Trace` (ids, log-probabilities, which are the model's own) is what is learnt; where earlier reasoning is
stripped (`turn_policy.TurnPolicy`) it is a sequence a turn. `trainer.AgentTrainer` gives TRL this rank's share
through `rollout_func`, replaces its advantages and masks, and computes the loss by `losses.policy_loss`; the rows of
TRL's dataset are placeholders. The sampler's state is in each checkpoint, so a resumed job tries the tasks that it
would have tried. `step_record.py` says what a step's attempts were in numbers, `evaluate.py` attempts a held-out
split.

Chat templates (`templates.py`): one has to render tools, be prefix-preserving on `templates.SAMPLES`, and be readable;
TRL's training form of it takes its place where it is not, and is saved with the model. SFT makes its labels piece by
piece as a policy would carry them, when a sample is learnt (`supervised/`).

A model's place (`placement/`): copies on each rank, or spread by FSDP2; micro batches of a budget of tokens.

A job. A worker starts `python -m training.launch FOLDER` on a folder with `job.json` (`job.JobFile`); `job_setup.py`
puts an SFT or RL job together. The child writes `record.jsonl` (numbers, events, artefacts),
`rollouts/step-N.jsonl.gz`, `checkpoints/checkpoint-N`, at the end `model/` and `result.json`, and ends with a status
of `job.Exit`. The file `stop` or SIGTERM ends it within a step: attempts under way are cancelled and nothing is learnt
from them. `lifeline.py` ends it with its worker.
"""
