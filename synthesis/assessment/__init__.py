"""Assessment: what is wrong with an environment or a task, by reading, by probing, by a tester and a checker.

Findings are static (`static.py`, by `ast`) or probed in the sandbox (`probe.py`, `tasks.py`); `kinds.py` has a
sentence for each kind.

The dual-agent assessment (EnvScaler 3.3; `dual_agent.py`): the author writes three states (`initial_states.py`, each
constructed), `call_plan.py` draws which tool each round tries and which way, or the tester chooses both, and the states
go on evolving, side by side (`rounds.py`). A round is: tester (tool schemas, rules, state), `cases.execute` in an
episode of its own made from the last state, checker (source with what it uses by `tool_context.py`, call, result,
patch, the states around the call by `state_view.py`). `scores.py` and `sequential_test.py` end it when the decision is
certain; tools that fail are mended or taken out by `repairs.py`, which asks as `tool_repair.py` does for people too.
`agent_brief.py` and `prompt_values.py` bound and fence all that prompts show. Each call is a `ToolCase` with state,
seed and clock; `cases.rerun` makes it again without an LLM. A tool's rate says too how many positive calls went through
(`turned_down`). Rows: `webapp/environments/assessment_services.py`.
"""
