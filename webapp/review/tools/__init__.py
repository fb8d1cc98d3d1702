"""Failing tools on the desk: what people said against their checker, and a tool's source beside its cases."""
