"""The playground: manual calls of an environment's tools in a live episode of the user's own.

Its calls are rows (`services.py`), an episode is a cache (`live_episodes.py`): a lost one is rebuilt by executing the
calls again and comparing the state's hash. A playground may begin after calls that another attempt made (`adopt`): undo
stops there. `argument_form.py` builds a form from a tool's schema and reads it back.
"""
