"""The playground: calls of an environment's tools by hand, in a live episode of one's own.

Its calls are rows (`services.py`), an episode is a cache (`live_episodes.py`): a lost one is rebuilt by executing the
calls again, and its state's hash compared. A playground may begin after calls that another attempt made (`adopt`): undo
stops there. `argument_form.py` makes a form of a tool's schema and reads it back.
"""
