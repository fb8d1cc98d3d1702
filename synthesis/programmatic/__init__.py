"""Programmatic tasks (Agent-World 3.1.1): the stages of the variant `programmatic` below an initial state.

| module | content |
|---|---|
| `query_stage.py` | the query of a user, and the form of the answer |
| `execution.py` | a solution script in the sandbox, its calls executed by the environment |
| `solution_stage.py` | the script that solves the query: its calls are the reference, its result the answer a* |
| `hard_coded.py` | ids and names in a script that the query does not contain |
| `trials.py` | ends that a verification script must pass, and ends that it must not |
| `call_orders.py` | the end that the same calls leave in another order |
| `verification_stage.py` | the verification script, debugged until it separates those ends; answers in similar states |
| `audit_stage.py` | the audit, after which the script may be repaired once |
"""
