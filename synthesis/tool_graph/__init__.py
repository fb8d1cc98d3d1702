"""Tasks from a graph of tools (AutoForge 3.2 and 3.3): the stages of the variant `autoforge` behind an environment.

Without a model (the same seed gives the same result): `graph.py` is the dependency graph of an environment's tools,
`walks.py` walks on it at random, `merges.py` joins pairs of walks, `dag.py` makes a blueprint of a sequence of tools
and reads what a model adds to it, `canonical.py` gives isomorphic blueprints one hash, `derivations.py` and
`execution.py` execute blueprints in the sandbox, `argument_sources.py` traces a call's values.

With a model: `edge_stage.py` judges edges, one question a source tool; `blueprint_stage.py` prunes merges and adds
reasoning nodes and edges; `task_stages.py` has a state made for a blueprint and writes the intent;
`argument_stage.py` fills in arguments node by node, each executed before the next is asked for, up to the golden state;
`refinement.py` rewrites the intent from both states and drops what a solver can do without; `solution.py` has solvers
try it and audits it. `words.py` is what their prompts show, `reply_forms.py` reads replies that are code.

What the paper leaves unpublished (numbers of walks and steps, pairing, caps, prompts) is ours.
"""
