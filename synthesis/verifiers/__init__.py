"""Verifiers: the rules that turn an end state and an answer into a reward, and their audit.

A check is evaluated in a process of its own, which gets one initial state, one final state and an answer (`checks.py`).
Verdicts become a reward by the rule `goals` or `proportion`. Of a rubric (`rubric.py`, rule `all`) code decides
the criteria about the answer form, and a judge the facts, by the evidence that `rubric_evidence.py` gathers.

A task may have a frame (`frame.py`): the changes of the state that a right solution may make. It follows from the
executed reference (`reference_frame.py`, by the record-aware difference of `state_changes.py`) and is widened with
reasons; any other change makes the reward 0. An end is compared with it in `frames/framed_end.py`, values as data in
`frames/pinned_values.py`, on the host: programs and checks never see it. In words: `frame_words.py`.

The audit (`audit.py`): an empty attempt, the reference (twice, at another moment, with another seed) and its variants
are executed in episodes (`call_sequences.py`). Their families: `probe_families.py`. `probes/call_mutants.py`: a call
removed, an argument altered to what the tool accepts; `probes/additive_mutants.py`: one unasked call beside it, or on a
neighbour's record; `probes/reachable_ends.py`: other ends that short sequences of calls reach, and detours to the same
end; `answer_variants.py`: right answers in other spellings and wrong ones; `withheld_answers.py`: of a task that
withholds a tool. `check_table.py` evaluates each check once for all end states that look the same to it
(`check_reads.py`), with the very request of a score;
`score_comparison.py` then has start, reference and a sample of variants scored, and names a check that decides
differently; `faults.py` turns the results of the probes into faults.
Green: an empty attempt earns 0, the reference 1 twice, its answer in other spellings too, every other variant less. A
rubric (`rubric_audit.py`) must also refuse an answer that only claims. Rows: `webapp/scenarios/audits`.
"""

from synthesis.verifiers.checks import compute_reward, hash_checks, mark_checks, trace_checks

__all__ = ["compute_reward", "hash_checks", "mark_checks", "trace_checks"]
