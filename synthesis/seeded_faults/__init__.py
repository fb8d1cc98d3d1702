"""Seeded faults: how well a checker tells right from wrong, measured on tools whose behaviour is known to be good.

The programs are the bundled ones, whose tasks are audited. `program_mutants.py` puts one fault into one tool,
`known_calls.py` has calls to try it on, `faulty_calls.py` keeps a mutant with a call that shows a difference anybody
could see (another result, another change, refused instead of done; not another word in a message). `measure.py` has the
checker judge each such call on the mutant, and the same call on the program as it was.
"""
