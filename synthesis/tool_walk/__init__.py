"""Tasks from weighted walks on a graph of tools (Agent-World 3.1.1, (1)): the stages of the variant `walk`.

| module | content |
|---|---|
| `weak_edge_stage.py` | weak edges beside the strong ones of `synthesis/tool_graph/edge_stage.py` |
| `weighted_walks.py` | a random walk by the weights 3, 2 and 1, without a model |
| `call_arguments.py` | values of its calls: from earlier results, or drawn from the state |
| `walk_stage.py` | a walk with its calls, each tried in the sandbox |
| `review_stage.py` | the chain that a model keeps of it and that can be executed, as a blueprint |
| `draft_stage.py` | the first words, from the chain alone |
| `answer_stage.py` | its execution; the final words, the answer form and the answer a* |
| `written_answers.py` | fields of a* that its code contains as literals |
| `hidden_words.py` | words without tools and their order |
| `rubric_stage.py` | criteria, tried on the end of the reference |
| `audit_stage.py` | the audit, after which the rubric may be written once more |

A task that is left out (`Rejected.reason`):

| stage | reason | means |
|---|---|---|
| walk | `no_walk` | no walk of the graph is long enough, or too few of its calls succeed |
| review | `invents_tool` | the review calls a tool that the walk does not have |
| review | `chain_fails` | a call of the chain is refused or repeated, or too few are left |
| draft, answer | `names_a_tool` | the words name a tool, a field or an internal id |
| answer | `unsaid_value` | the words leave out a value that has no other source |
| answer | `answer_form` | the answer form is inconsistent, or does not fit a* |
| answer | `answer_fails` | the code of a* fails |
| answer | `answer_written` | the code of a* contains a field as a literal instead of computing it |
| answer | `answer_unsteady` | at another moment the chain leads to another a* |
| answer | `tells_order` | the rewritten words still list steps |
| rubric | `rubric_gaps` | a field, or the change of the state, has no criterion |
| rubric | `rubric_contradicts` | a criterion does not hold at the end of the reference |
| solve | `reference_fails`, `no_model_passes`, `inconsistent` | see `synthesis/tasks/consistency.py` |
| audit | `red_audit`, `cannot_be_audited` | as for any task |
"""
