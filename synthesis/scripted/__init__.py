"""Scripted provider: six themes through every stage without any LLM, offline and deterministic.

Author replies are files in `themes/`, written for this project; tester, checker, user, teacher and judge are small
programs in `programs/` that read only the contents of a prompt. Faults are planted in both (`planted.json` of each
theme), so that a run shows which faults the pipeline catches.

`provider.py` is one model for all roles, called with the site of a call. `author.py` replies from a theme's folder (the
table in `library.py`): people write one whole program and one file of checks, `fragments.py` cuts both into the
replies. `programs/` play the others: `programs/prompt_reader.py` parses a prompt by the file that it was rendered from,
so wording may change and variables' names may not. The teacher's recipes (`programs/recipes/`) are generators that are
run again from their beginning at every turn, over the results in the messages. Replies of planted faults replace right
ones, and `detection.py` decides, from the traces of a run, if each was caught by the required stage.
"""

from synthesis.scripted.detection import ItemEnding, Traces, is_caught, is_reached
from synthesis.scripted.library import list_bundled_themes
from synthesis.scripted.planted import PlantedFault, list_planted_faults
from synthesis.scripted.provider import ScriptedModel

__all__ = [
    "ItemEnding",
    "PlantedFault",
    "ScriptedModel",
    "Traces",
    "is_caught",
    "is_reached",
    "list_bundled_themes",
    "list_planted_faults",
]
