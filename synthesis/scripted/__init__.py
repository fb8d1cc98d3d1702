"""The scripted provider: six themes through every stage without any LLM, offline and the same every time.

Author replies are files in `themes/`, written for this project; tester, checker, user, teacher and judge are small
programs in `programs/` that see only what a prompt shows. Faults are planted in both (`planted.json` of each theme),
so that a run shows what the pipeline catches.
"""

from synthesis.scripted.detection import ItemEnding, Traces, caught, seen
from synthesis.scripted.library import themes
from synthesis.scripted.planted import Planted, planted
from synthesis.scripted.provider import ScriptedModel

__all__ = ["ItemEnding", "Planted", "ScriptedModel", "Traces", "caught", "planted", "seen", "themes"]
