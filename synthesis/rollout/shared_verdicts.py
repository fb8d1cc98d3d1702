"""Verdicts shared by attempts that end alike: questions with identical text are answered by one process.

A check sees one world (initial state, final state, answer) and neither a clock nor randomness, so the same bytes give
the same verdict. Attempts at one task often end in the same state with the same words, and each question costs a
process.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError, Future

from synthesis.contracts import State, Verdict
from synthesis.runtime import Sandbox
from synthesis.runtime.check_request import build_world_text, serialize_state
from synthesis.runtime.sandbox import STOPPED

MOST = 4_096
"""So many questions are remembered, the latest."""
Question = tuple[str, bytes]
"""(a check's source, the digest of the world that it looks at)."""
Asked = dict[Question, "Future[Verdict]"]


class SharedVerdicts:
    """A sandbox's verdicts, each question evaluated once. Thread-safe.

    A caller whose question is being evaluated for another caller waits for that result. The loss of a check's process
    concerns its caller only: others ask again.
    """

    def __init__(self, sandbox: Sandbox, most: int = MOST) -> None:
        self.sandbox, self.most = sandbox, most
        self._lock = threading.Lock()
        self._known: OrderedDict[Question, Future[Verdict]] = OrderedDict()

    def evaluate_checks(
        self, checks: Sequence[str], initial_state: State, final_state: State, *, answer: str | None = ""
    ) -> list[Verdict]:
        """Return the verdicts as `Sandbox.evaluate_checks` does."""
        world = build_world_text(serialize_state(initial_state), serialize_state(final_state), answer)
        digest = hashlib.blake2b(world.encode("ascii"), digest_size=16).digest()
        questions = [(source, digest) for source in checks]
        others, own = self._claim(questions)
        verdicts: dict[Question, Verdict] = {}
        try:
            # Before any waiting, so that no two wait for each other.
            for question, verdict in zip(own, self._ask(own, world), strict=True):
                verdicts[question] = verdict
                if not verdict.error.startswith(STOPPED):
                    own[question].set_result(verdict)
        finally:
            self._forget(own)
        for question in questions:
            if question not in verdicts:
                verdicts[question] = self._wait_for_verdict(question, others[question], world)
        return [verdicts[question] for question in questions]

    def _ask(self, questions: Iterable[Question], world: str) -> Iterable[Verdict]:
        return self.sandbox.verdicts((source, world) for source, _ in questions)

    def _claim(self, questions: Sequence[Question]) -> tuple[Asked, Asked]:
        """Return (futures of questions that others evaluate, futures of those that the caller has to evaluate)."""
        others, own = Asked(), Asked()
        with self._lock:
            for question in questions:
                if question in own:
                    continue
                if question in self._known:
                    others[question] = self._known[question]
                    self._known.move_to_end(question)
                else:
                    own[question] = self._known[question] = Future()
            while len(self._known) > self.most:
                self._known.popitem(last=False)
        return others, own

    def _forget(self, own: Asked) -> None:
        """Remove questions without a verdict, so that others evaluate them."""
        for question, answer in own.items():
            if not answer.done():
                with self._lock:
                    if self._known.get(question) is answer:
                        del self._known[question]
                answer.cancel()

    def _wait_for_verdict(self, question: Question, answer: Future[Verdict], world: str) -> Verdict:
        try:
            return answer.result()
        except CancelledError:
            return next(iter(self._ask([question], world)))
