"""Verdicts shared by attempts that end alike: a question that is the same to the letter is put to one process.

A check sees one world (initial state, final state, answer) and neither a clock nor chance, so the same bytes give the
same verdict. Attempts at one task often end in the same state with the same words, and each question costs a process.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError, Future

from synthesis.contracts import State, Verdict
from synthesis.runtime import Sandbox
from synthesis.runtime.check_request import state_text, world_text
from synthesis.runtime.sandbox import STOPPED

MOST = 4_096
"""So many questions are remembered, the latest."""
Question = tuple[str, bytes]
"""(a check's source, the digest of the world that it looks at)."""
Asked = dict[Question, "Future[Verdict]"]


class SharedVerdicts:
    """A sandbox's verdicts, each question asked once. Thread-safe.

    Who asks what another one is just asking waits for that one. The loss of a check's process is nobody else's: others
    ask again.
    """

    def __init__(self, sandbox: Sandbox, most: int = MOST) -> None:
        self.sandbox, self.most = sandbox, most
        self._lock = threading.Lock()
        self._known: OrderedDict[Question, Future[Verdict]] = OrderedDict()

    def evaluate_checks(
        self, checks: Sequence[str], initial_state: State, final_state: State, *, answer: str | None = ""
    ) -> list[Verdict]:
        """See `Sandbox.evaluate_checks`."""
        world = world_text(state_text(initial_state), state_text(final_state), answer)
        digest = hashlib.blake2b(world.encode("ascii"), digest_size=16).digest()
        questions = [(source, digest) for source in checks]
        known, own = self._claimed(questions)
        said: dict[Question, Verdict] = {}
        try:
            # Before any waiting, so that no two wait for each other.
            for question, verdict in zip(own, self._ask(own, world), strict=True):
                said[question] = verdict
                if not verdict.error.startswith(STOPPED):
                    own[question].set_result(verdict)
        finally:
            self._forget(own)
        for question in questions:
            if question not in said:
                said[question] = self._heard(question, known[question], world)
        return [said[question] for question in questions]

    def _ask(self, questions: Iterable[Question], world: str) -> Iterable[Verdict]:
        return self.sandbox.verdicts((source, world) for source, _ in questions)

    def _claimed(self, questions: Sequence[Question]) -> tuple[Asked, Asked]:
        """(what answers the questions that others have asked, what will answer those that the caller has to ask)."""
        known, own = Asked(), Asked()
        with self._lock:
            for question in questions:
                if question in own:
                    continue
                if question in self._known:
                    known[question] = self._known[question]
                    self._known.move_to_end(question)
                else:
                    own[question] = self._known[question] = Future()
            while len(self._known) > self.most:
                self._known.popitem(last=False)
        return known, own

    def _forget(self, own: Asked) -> None:
        """Leave to others what came to no verdict."""
        for question, answer in own.items():
            if not answer.done():
                with self._lock:
                    if self._known.get(question) is answer:
                        del self._known[question]
                answer.cancel()

    def _heard(self, question: Question, answer: Future[Verdict], world: str) -> Verdict:
        try:
            return answer.result()
        except CancelledError:
            return next(iter(self._ask([question], world)))
