"""Tasks (EnvScaler 4.2, 4.3): from a user's words to a verifier that an audit trusts, and what teachers make of them.

What an item may end as (`Rejected.reason`), where the author was asked again and it stayed so:

| stage | reason | means |
|---|---|---|
| every one | `state_invalid` | the scenario's state does not start any more |
| instruction | `names_a_tool` | the instruction names a tool, a field or an internal id |
| instruction | `answer_form` | the answer form or its expected values do not hold together |
| checklist | `checklist_repeats` | two items say the same |
| checklist | `answer_unjudged` | no item names a field of the answer that has no expected value |
| checklist, audit | `frame_invalid` | what the author declares free is no place of the state |
| checks | `check_invalid` | a function has another form, or at the start raises or gives no boolean |
| checks | `check_never_varies` | a function looks at nothing that changes, or always returns the same |
| checks, audit | `no_goal_check` | every check holds before anything is done |
| audit | `red_audit` | still red after one repair, or the repair stayed unfit; the message names the faults |
| audit | `cannot_be_audited` | the program no longer starts, or its state has no encoding |
| filter | `infra_error` | the attempt was not finished |
| filter | `program_error` | the environment's program brought the attempt to an end |
| filter | `user_error` | the simulated user's words could not be used, even when asked again |
| filter | `invalid_format` | calls that are none, or of unknown tools, or turns that hold nothing of use |
| filter | `cut_turn` | a turn was broken off at the limit of tokens, or for repeating itself without end |
| filter | `impossible_task` | a judge says that the task cannot be done, and why |
| filter | `user_fault` | a judge quotes where the user contradicts its intent, invents or leaves out |
| filter | `not_solved` | it earned less than `least_reward` |
| filter | `action_range` | fewer or more actions than asked for |

A task that none of the teacher's runs solved goes to repair as well; what stays unsolved is not rejected: it keeps no
reference, a note says so, and its audit is `unproven`. The filters are in the order in which trajectories meet them.

Each stage constructs the scenario's state anew (`task_context.py`): checks and prompts see what the program makes of
it. `instruction.py` asks for the task and `leak.py` for names that a user cannot know; `checklist.py` for conditions;
`checks.py` for a function each: `check_source.py` reads its form, the sandbox runs it on the start and on the states
of `damaged_states.py`. `author_form.py` looks at the answer forms that authors write; the checks of a form are made by
code. `reference_search.py` has the teacher try k times and executes the shortest solution again, without acts that
change nothing (`minimal_reference.py`); `submitted_values.py` says where runs submitted what was not expected, and
`solver_runs.py` keeps all k runs beside the task.
`task_frame.py` says what may change at all. `audit_repair.py` audits, and `known_ways.py` looks for calls that no check
misses and runs that the frame refuses. What is red, or was not solved, goes to the author once (`repair_prompt.py`,
`repair_form.py`), and the teacher's stored attempts are judged anew. What was read well but stays unacceptable is
`Unfit`, and becomes Rejected.

`withheld.py` makes variants of a task that take away a tool which it needs, and says why
others cannot be taken. `teacher.py` makes an attempt with the teacher, `trajectory_filters.py` says whether it is worth
training on: filters in a fixed order, those without a judge on `AttemptFacts`, the judge's two questions (possible?
facts made up?) between.
"""
