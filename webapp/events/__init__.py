"""Live updates: changes are published by topic, and who follows asks for the rest.

After a commit a writer publishes topics (`trajectory:5`, `job:7`; `services.py`): a row in the event table and a
NOTIFY, numbered in the order of commits. Whoever publishes often goes through `throttle.py`, which tells each topic so
often at most, and its last change always. Each web process LISTENs on one connection of its own (`hub.py`) and hands
topics to the open streams (`stream.py`, with `Last-Event-ID`); nothing but topics travels.

In the browser `static/js/live.js` keeps one stream (the tab that holds a Web Lock shares it with the others), asks
anew for parts of the page that are marked `data-live`, and polls where there can be no stream.
"""
