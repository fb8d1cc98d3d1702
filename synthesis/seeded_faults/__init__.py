"""Seeded faults: measures of how well a checker, or an audit, separates right from wrong on known good data.

Of tools: the programs are the bundled ones, whose tasks are audited. `program_mutants.py` puts one fault into one tool,
`known_calls.py` has calls to try it on, `faulty_calls.py` keeps a mutant with a call that shows a difference that any
checker could see (another result, another change, refused instead of done; not another word in a message). `measure.py`
has the checker judge each such call on the mutant, and the same call on the original program.

Of verifiers: `sound_tasks.py` gathers the bundled tasks, `verifier_faults.py` puts one fault into the verifier of one
(`check_rewrites.py`, `answer_faults.py`, `frame_faults.py`, `run_faults.py`) and keeps it with an executed way that
shows it: a wrong one that earns the full reward, or a right one that does not (`executed_ways.py`). `sound_rewrites.py`
writes a sound verifier in other words. `audit_measure.py` has the audit judge both.
"""
