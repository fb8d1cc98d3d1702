"""Graphs as drawings: nodes on levels, links routed between them, and the shapes that templates write as SVG.

`layered_layout.py` places nodes and links, `graph_shapes.py` makes shapes of that, `templates/parts/graph.html` draws
them. This package does not depend on the kind of nodes: it draws graphs of tools and blueprints of tasks alike.
"""
