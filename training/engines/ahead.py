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
    """The attempts of the next step, under way in a thread, at most one step's at a time."""

    def __init__(self, make: Callable[[SamplerState, int, Callable[[], bool]], Step]) -> None:
        """`make` makes the attempts that follow a state, by the policy after so many updates, until told to stop."""
        self._make = make
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._under_way: Future[Step] | None = None
        self._closed = threading.Event()

    def begin(self, state: SamplerState, policy_step: int) -> None:
        """Start with what follows a state, by the policy that the engine has now."""
        self._under_way = self._thread.submit(self._make, state, policy_step, self._closed.is_set)

    def wait(self) -> None:
        """Until nobody generates: before weights change. How it went is told by `take`."""
        if self._under_way is not None:
            with contextlib.suppress(Exception):
                self._under_way.result()

    def take(self) -> Step | None:
        """What was begun, once it is whole; None where nothing was. Raises what making it raised."""
        done, self._under_way = self._under_way, None
        return done.result() if done is not None else None

    def close(self) -> None:
        """Stop what is under way: nobody will take it."""
        self._closed.set()
        self._thread.shutdown(wait=True, cancel_futures=True)
