"""Programs that tasks were made by, on their pages: the solution, the verification script, and their debugging."""
