"""Tasks (EnvScaler 4.2, 4.3): from a user's words to an audited verifier, and the teacher's attempts.

Reasons for which an item is rejected (`Rejected.reason`), even after the author was asked again:

| stage | reason | means |
|---|---|---|
| all | `state_invalid` | the scenario's state does not start any more |
| instruction | `names_a_tool` | the instruction names a tool, a field or an internal id |
| instruction | `answer_form` | the answer form or its expected values do not hold together |
| checklist | `checklist_repeats` | two items are the same |
| checklist | `answer_unjudged` | no item names a field of the answer that has no expected value |
| checklist, audit | `frame_invalid` | a place that the author declares free is not in the state |
| checks | `check_invalid` | a function has another form, or at the start raises or gives no boolean |
| checks | `check_never_varies` | a function reads nothing that changes, or always returns the same |
| checks, audit | `no_goal_check` | every check holds before anything is done |
| audit | `red_audit` | still red after one repair, or the repair stayed unfit; the message names the faults |
| audit | `cannot_be_audited` | the program no longer starts, or its state has no encoding |
| filter | `infra_error` | the attempt was not finished |
| filter | `program_error` | the environment's program ended the attempt |
| filter | `user_error` | the simulated user's words could not be used, even when asked again |
| filter | `invalid_format` | unreadable calls, calls of unknown tools, or turns without any use |
| filter | `cut_turn` | a turn was cut off at the limit of tokens, or for endless repetition |
| filter | `impossible_task` | a judge explains why the task cannot be done |
| filter | `user_fault` | a judge quotes a user who contradicts its intent, invents or omits facts |
| filter | `not_solved` | it earned less than `least_reward` |
| filter | `action_range` | fewer or more actions than asked for |

A task that none of the teacher's runs solved goes to repair as well; if it stays unsolved, it is not rejected: it has
no reference, a note reports it, and its audit is `unproven`. The filters are in the order in which trajectories meet
them.

Each stage constructs the scenario's state anew (`task_context.py`): checks and prompts read the state that the program
makes of it. `instruction.py` asks for the task and `leak.py` finds names that a user cannot know; `checklist.py` asks
for conditions; `checks.py` for a function each: `check_source.py` reads its form, the sandbox runs it on the start and
on the states of `damaged_states.py`. `author_form.py` validates the answer forms of authors; the checks of a form are
made by code. `reference_search.py` has the teacher try k times and executes the shortest solution again, without acts
that change nothing (`minimal_reference.py`); `submitted_values.py` reports unexpected submitted values, and
`solver_runs.py` stores all k runs with the task.

`task_frame.py` defines the allowed changes. `audit_repair.py` audits, and `known_ways.py` finds calls whose absence no
check notices and runs that the frame refuses. A red or unsolved task goes to the author once (`repair_prompt.py`,
`repair_form.py`), and the teacher's stored attempts are judged anew. A readable but unacceptable reply is `Unfit`, and
becomes Rejected.

`withheld.py` makes variants of a task without a tool that it needs, and explains why others are unsuitable.
`teacher.py` makes an attempt with the teacher, `trajectory_filters.py` selects those worth training on: filters in a
fixed order, those without a judge on `AttemptFacts`, the judge's two questions (possible? invented facts?) between.
"""
