"""Skeleton of an environment (EnvScaler 3.2): E = {program, documentation, tools}.

A theme becomes a logic plan, the plan code fragments, the fragments one program that passes a static check.

`plan.py` asks for state space and rules, then for the operations (names that a tool can have, queries and changes, as
many as the settings allow). `code.py` asks for the class attributes, then for each method in a call of its own, eight
at once; `fragments.py` reads each reply and reports faults while the author is still asked. `assembly.py` joins the
author's own text: `ast` finds the places, imports go to the top (`synthesis/runtime/imports.py`), one that would change
a name's meaning stays in its method. `static.py` and `attributes.py` examine the program (order in `static.py`), last
in the sandbox, from nothing and from the resulting state; `repair.py` feeds all problems back for some rounds, then
rejects. Problems found before repair are in `AssembledProgram.invalid_before_repair`.
"""

from synthesis.skeleton.code import write_code
from synthesis.skeleton.plan import plan_environment
from synthesis.skeleton.repair import assemble_program

__all__ = ["assemble_program", "plan_environment", "write_code"]
