"""Tasks from a graph of tools (AutoForge 3.2 and 3.3): the stages of the variant `autoforge` after an environment.

Without a model (the same seed gives the same result): `graph.py` is the dependency graph of an environment's tools,
`blueprint_stage.py` draws random walks on it, `merges.py` joins pairs of walks, `dag.py` builds a blueprint of a
sequence of tools and applies a model's additions, `canonical.py` gives isomorphic blueprints one hash, `derivations.py`
and `execution.py` execute blueprints in the sandbox, `argument_sources.py` traces a call's values.

With a model: `edge_stage.py` judges edges, one question per source tool; `blueprint_stage.py` prunes merges and adds
reasoning nodes and edges; `task_stages.py` has a state made for a blueprint and writes the intent; `argument_stage.py`
fills in arguments node by node, each executed before the next is requested, up to the golden state; `refinement.py`
rewrites the intent from both states and drops what a solver does not need; `solution.py` has solvers try it and audits
it. `words.py` formats texts for their prompts, `reply_forms.py` parses replies that are code.

Values that the paper leaves unpublished (numbers of walks and steps, pairing, caps, prompts) are ours.
"""
