"""Seeded faults: how well a checker, or an audit, tells right from wrong, measured on what is known to be good.

Of tools: the programs are the bundled ones, whose tasks are audited. `program_mutants.py` puts one fault into one tool,
`known_calls.py` has calls to try it on, `faulty_calls.py` keeps a mutant with a call that shows a difference anybody
could see (another result, another change, refused instead of done; not another word in a message). `measure.py` has the
checker judge each such call on the mutant, and the same call on the program as it was.

Of verifiers: `sound_tasks.py` gathers the bundled tasks, `verifier_faults.py` puts one fault into the verifier of one
(`check_rewrites.py`, `answer_faults.py`, `frame_faults.py`, `run_faults.py`) and keeps it with an executed way that
shows it: a wrong one that is paid in full, or a right one that is not (`executed_ways.py`). `sound_rewrites.py` writes
a sound verifier in other words. `audit_measure.py` has the audit judge both.
"""
