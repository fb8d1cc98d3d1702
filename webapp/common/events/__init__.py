"""Live updates: changes are published by topic, and followers request the rest.

After a commit a writer publishes topics (`trajectory:5`, `job:7`; `services.py`): a row in the event table and a
NOTIFY, numbered in the order of commits. Frequent publishers use `throttle.py`, which limits how often each topic is
published, but always publishes its last change. Each web process LISTENs on one connection of its own (`hub.py`) and
hands topics to the open streams (`stream.py`, with `Last-Event-ID`); only topics are sent.

In the browser `static/js/live.js` keeps one stream (the tab that holds a Web Lock shares it with the others), requests
again the parts of the page that are marked `data-live`, and polls if there can be no stream.
"""
