"""Programmatic tasks (Agent-World 3.1.1): the stages of the variant `programmatic` below an initial state.

| module | what |
|---|---|
| `query_stage.py` | what a user asks, and the form of the answer |
| `execution.py` | a solution script in the sandbox, its calls carried out by the environment |
| `solution_stage.py` | the script that solves the query: its calls are the reference, its result the answer a* |
| `siblings.py` | what the same script answers in states that differ a little |
| `trials.py` | ends that a verification script must let pass, and ends that it must not |
| `verification_stage.py` | the verification script, debugged until it tells those ends apart |
| `consistency.py` | ReAct runs of the solver, of which enough must pass |
| `audit_stage.py` | the audit, after which the script may be repaired once |
"""
