"""One step off-policy, by choice: the next step's attempts are made while the model learns from the last ones."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from training.sampler import SamplerState

Step = TypeVar("Step")


class NextStep(Generic[Step]):
    """Attempts of the next step, under way in a thread, at most one step at a time."""

    def __init__(self, make: Callable[[SamplerState, int, Callable[[], bool]], Step]) -> None:
        """Store `make`, which makes the attempts that follow a state, by the policy after so many updates, until
        stopped.
        """
        self._make = make
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._under_way: Future[Step] | None = None
        self._closed = threading.Event()

    def begin(self, state: SamplerState, policy_step: int) -> None:
        """Start the attempts that follow a state, by the policy that the engine has now."""
        self._under_way = self._thread.submit(self._make, state, policy_step, self._closed.is_set)

    def wait(self) -> None:
        """Wait until generation has ended, before weights change. `take` reports errors."""
        if self._under_way is not None:
            with contextlib.suppress(Exception):
                self._under_way.result()

    def take(self) -> Step | None:
        """Return the step that was begun, once it is complete, or None if none was begun. Raises the errors of making
        it.
        """
        done, self._under_way = self._under_way, None
        return done.result() if done is not None else None

    def close(self) -> None:
        """Stop the attempts under way: they will not be taken."""
        self._closed.set()
        self._thread.shutdown(wait=True, cancel_futures=True)
