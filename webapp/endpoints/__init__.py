"""LLM endpoints: servers with an address and an encrypted key, and the model of each role.

`addresses.py` decides which addresses requests may go to, checked when an endpoint is saved and before each use.
`services.py` opens a registered endpoint for `synthesis.llm`; `trial.py` finds out in a short conversation what a
server can do (tools, structured output), which a person may save. Prices are on the endpoint's row, by model.
"""
