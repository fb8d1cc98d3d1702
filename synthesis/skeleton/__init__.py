"""The skeleton of an environment (EnvScaler 3.2): E = {program, documentation, tools}.

A theme becomes a logic plan, the plan code fragments, the fragments one program that passes a static check.
"""

from synthesis.skeleton.code import write_code
from synthesis.skeleton.plan import plan
from synthesis.skeleton.repair import assemble

__all__ = ["assemble", "plan", "write_code"]
