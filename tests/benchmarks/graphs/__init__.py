"""Blueprints of tasks: walks, merges, canonical forms and executions, measured."""
