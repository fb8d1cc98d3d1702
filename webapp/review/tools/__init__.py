"""Failing tools on the desk: verdicts of people against their checker, and a tool's source beside its cases."""
