"""One error vocabulary, by boundary.

Three families that must never be mixed up: the *input* was bad (a person has to change it), the *program* under test
misbehaved (data about an environment), or the *infrastructure* failed (retry; never a reward of zero). A tool that
raises is none of these: it is an observation (`CallResult.ok` is false).

Broad `except` is allowed at these boundaries only: around a hostile program in the sandbox's children, around one
record of an import, around one stage of a batch's item, around the database transaction that serves many of a batch's
tasks (each is notified), and around one background job.
"""

from __future__ import annotations


class EnvariumError(Exception):
    """Base of all exceptions that Envarium raises on purpose. `str(error)` is a message for people."""


class InputError(EnvariumError):
    """Unusable input; the message names the fault, its place and the remedy. `observed` is the result so far, if the
    input was tried: its author is shown that too.
    """

    observed: str = ""


class FormatError(InputError):
    """A record of an import is malformed. `place` is a path such as `[3].checklist_with_func[0]`."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}" if place else reason)
        self.place = place
        self.reason = reason


class ProgramError(EnvariumError):
    """An environment's program cannot be loaded or constructed; a fact about the program."""


class StateError(EnvariumError):
    """A state has no lossless encoding, or an encoded state or patch is malformed."""


class ReplayMismatch(EnvariumError):
    """Re-executing stored calls did not lead to the stored state hash."""


class PromptError(EnvariumError):
    """A prompt and the variables it is given do not match: a fault of ours, found at the first use."""


class InfrastructureError(EnvariumError):
    """Something of ours failed. Retry, or mark the attempt `infra_error`; never score it."""


class SandboxUnavailable(InfrastructureError):
    """The sandbox cannot start here, or would start without the layers that make it safe."""


class EpisodeLost(EnvariumError):
    """The process that held an episode is gone. Always raised as one of the two subclasses below, which show the
    cause.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"The episode's process is gone ({reason}){': ' + detail if detail else ''}")
        self.reason = reason
        self.detail = detail


class ProgramEnded(EpisodeLost, ProgramError):
    """The program ended its own process: a fact about the program, by whatever means.

    `reason`: `time` (no answer, or its processor time used up), `memory`, `protocol` (its output cannot be read),
    `died` (it exited, or a signal of its own ended it), `killed` (SIGKILL, and again when the same calls were made in a
    fresh process).
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.args = (f"The program ended the episode ({reason}){': ' + detail if detail else ''}",)


class SandboxLost(EpisodeLost, InfrastructureError):
    """A part of Envarium ended an episode's process: this is no fact about the program.

    `reason`: `closed` (by its holder) or `sandbox` (the process that all episodes come from ended).
    """


class LLMError(InfrastructureError):
    """An LLM's endpoint gave no usable reply. The message never holds the key.

    `reason`: `unreachable`, `timeout`, `rate_limited`, `refused` (key, model or request), `malformed`, `too_large` (the
    reply), `failed` (the server's own fault), `context` (the conversation exceeds the model's window) or `given_up`
    (the caller ended before the reply came). `requests` is the number of requests sent in vain; `retry_after` is the
    number of seconds that the server asked to wait. `away` names an endpoint to which no connection could be made: the
    request itself is not at fault.
    """

    def __init__(
        self, reason: str, message: str, *, requests: int = 0, retry_after: float | None = None, away: str = ""
    ) -> None:
        super().__init__(message)
        self.away = away
        self.reason = reason
        self.requests = requests
        self.retry_after = retry_after


class MalformedReply(LLMError):
    """A model's replies could not be used, including bounded retries. None of them was kept as data.

    `call_key` names the stored call of the last reply, so that a person can read it. `requests` is the number of those
    replies; each was counted when it came.
    """

    def __init__(self, message: str, *, call_key: str = "", requests: int = 0) -> None:
        super().__init__("malformed", message, requests=requests)
        self.call_key = call_key


class SpendCapReached(EnvariumError):
    """A request would begin above the batch's spend cap: the batch pauses, and nothing is lost."""


class Rejected(EnvariumError):
    """A stage decided that an item is not good enough: a fact about the item, with its reason.

    `reason` is a short slug by which batches count (`assessment_below_threshold`), the message is its description,
    `evidence` is JSON for inspection.
    """

    def __init__(self, reason: str, message: str, evidence: object = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.evidence = evidence
