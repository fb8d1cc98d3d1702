"""Tool documents in, themes out (AutoForge 3.1, Agent-World 3.1): what a theme's tools are called, do and take.

`document_reader.py` recognises a file and reads it; a module each reads OpenAPI documents (`openapi.py`, with
`schemas.py`), lists of tools (`tool_lists.py`), Markdown (`markdown.py`) and product requirements (`requirements.py`).
A document becomes one theme. A tool that it names is never dropped: what cannot be read fails the document, with the
place.
"""
