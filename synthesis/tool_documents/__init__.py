"""Themes from tool documents (AutoForge 3.1, Agent-World 3.1): names, purposes and parameters of a theme's tools.

`document_reader.py` recognises a file and reads it; one module each reads OpenAPI documents (`openapi.py`, with
`schemas.py`), lists of tools (`tool_lists.py`), Markdown (`markdown.py`) and product requirements (`requirements.py`).
A document becomes one theme. A tool that it names is never dropped: an unreadable part fails the document, with the
place.
"""
