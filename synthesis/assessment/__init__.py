"""Assessment: faults of an environment or a task, found by reading, by probing, and by a tester with a checker.

Findings are static (`static.py`, by `ast`) or probed in the sandbox (`probe.py`, `tasks.py`); `kinds.py` has a sentence
for each kind.

The dual-agent assessment (EnvScaler 3.3; `dual_agent.py`): the author writes three states (`initial_states.py`, each
constructed), `call_plan.py` draws the tool and the way of each round, or the tester chooses both, and the states go on
evolving, side by side (`rounds.py`). A round is: tester (tool schemas, rules, state), `cases.execute_call` in an
episode of its own made from the last state, checker (source with its dependencies by `tool_context.py`, call, result,
patch, the states around the call by `state_view.py`). `scores.py` and `sequential_test.py` end the assessment when the
decision is certain; failing tools are mended or removed by `repairs.py`, which asks as `tool_repair.py` does for users
too. `agent_brief.py` and `prompt_values.py` bound and fence all values in prompts. Each call is a `ToolCase` with
state, seed and clock; `cases.rerun_case` repeats it without an LLM. A tool's rate also counts the positive calls that
were not refused (`cases.is_refused_call`). Rows: `webapp/environments/assessment_services.py`.
"""
