"""Programs that replace the LLM as tester, checker, user, solver and judge: each reads only its prompt."""
