"""The engine of a batch: lanes that bring items from stage to stage, LLM calls, spend, products.

Lanes. `lane_queue.py` makes background jobs of kind `run_batch`. A lane (`lane.py`) is one event loop: it takes
the deepest waiting items with SKIP LOCKED under its claim and brings each (`item.py`) from stage to stage of
`synthesis/pipeline.py`. Each stage's draft is stored (`results.py`; a StageRun with a body by content, `stage_runs.py`)
before the next begins, and counted in the same transaction. After the last, `products.py` makes rows through the
importers' services; then one transaction ends the item, writes its product with provenance, and adds its child items.
`item_state.py` alone writes an item's state; every write locks the item and checks its claim: a stale worker writes
nothing.

Existing items. An item of an existing environment begins at the stage whose draft its spec holds (`Stage.given`),
passes the stages that need not run again (`skipped`), and its product is the existing version; its path is the
environment's key, `@` and part of its content's hash. `theme_source.py` gives themes and environments of the taxonomy.

Calls. `call_store.py` is the `CallStore` of `synthesis/llm/store.py`: requests of tasks are gathered
(`write_batcher.py`) into one transaction of one thread, a few statements for all of them (`call_rows.py`); stage
endings are gathered in the same way. A reply is committed before it is used and wins over a later one; `open` counts
requests whose process may have ended, which become `lost` when the call is begun again. So a killed worker repeats at
most the calls in flight. A person's retry sets the replies at fault aside (state `aside`).

Spend. The batch's `spent` rises in that transaction, and the meter learns from it what other lanes spend. With a cap
`call_store.py` grants each call its likely cost under the batch's lock, against what is spent and what all lanes hold
(`BatchLane.reserved`).

Stopped batches. A batch is `paused`, `capped` or `failed` (its workers were lost): calls in flight end and are stored,
items go back to waiting. A lane hands over to a new job after three quarters of a job's time limit (45 minutes), and if
an endpoint was changed; a deleted endpoint pauses the batch. `over` marks a lane that has looked for work for the last
time, so that code that adds work starts another. A lane whose database went away writes nothing and lets its lease
bring the job back; a stage that lost a process of the sandbox is tried again, twice.

Barriers. `barriers.py` groups without a lock and decides under it, if the same items still wait there;
`near_duplicates.py` folds the themes that it left out.

Provenance. Prompts note that they are filled in (`prompts.noting`), a kit the roles and seeds it is asked for;
`StageRun.used` keeps them, and `provenance.py` adds them up, with notes for people on kept products (faults before
repair, a task that no solver solved). `failure_signature.py` groups failures, `item.py` adds advice to their messages.
"""
