"""The scripted provider: six themes through every stage without any LLM, offline and the same every time.

Author replies are files in `themes/`, written for this project; tester, checker, user, teacher and judge are small
programs in `programs/` that see only what a prompt shows. Faults are planted in both (`planted.json` of each theme),
so that a run shows what the pipeline catches.

`provider.py` is one model for all roles, asked with the site of a call. `author.py` replies out of a theme's folder
(the table in `library.py`): a person writes one whole program and one file of checks, `fragments.py` cuts both into
the replies. `programs/` play the others: `programs/prompt_reader.py` takes a prompt apart by the file that it was
rendered from, so wording may change and variables' names may not. The teacher's recipes (`programs/recipes/`) are
generators that are run again from their beginning at every turn, over the results that stand in the messages. Replies
of planted faults take the place of right ones, and `detection.py` says, from what a run left behind, whether each was
caught where it must be.
"""

from synthesis.scripted.detection import ItemEnding, Traces, caught, seen
from synthesis.scripted.library import themes
from synthesis.scripted.planted import PlantedFault, planted
from synthesis.scripted.provider import ScriptedModel

__all__ = ["ItemEnding", "PlantedFault", "ScriptedModel", "Traces", "caught", "planted", "seen", "themes"]
