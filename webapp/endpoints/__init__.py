"""LLM endpoints: servers with an address and an encrypted key, and which model plays which role.

`addresses.py` says which addresses requests may go to, looked at when one is saved and before each use. `services.py`
opens a registered endpoint for `synthesis.llm`; `trial.py` finds out in a short conversation what it can (tools,
structured output), which a person may keep. Prices stand on the endpoint's row, by model.
"""
