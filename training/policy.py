"""Policies that keep their tokens: an attempt is one sequence, carried forward and never rendered again.

`TokenPolicy` is the policy of one attempt; a `GenerationEngine` (`training.engines`) generates its tokens.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from synthesis.contracts import Message, Tool, Turn, Usage
from synthesis.errors import EnvariumError, InputError, LLMError
from synthesis.rollout import Conversation, PolicyError
from training.config import Decoding
from training.templates import SEEN_BEFORE, Tokenizer, encode_prompt, encode_suffix, read_turn

SHARED_TURNS = 1_024
"""So many turns are remembered as they were read,"""
SHARED_TOKENS = 256
"""none of more tokens: hardly two long ones are the same."""


class Diverged(EnvariumError):
    """The model, its loss or its gradient is NaN or infinite. It ends a job: no attempt is to blame."""


@dataclass(frozen=True)
class Generation:
    """Tokens that a model generated, at most as many as requested, and the natural log-probability of each at the
    sampling temperature; at temperature 0, of the model's plain distribution. The last one ends the turn unless `cut`.
    `policy_step` is the number of updates of the policy that generated them.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    cut: bool
    policy_step: int = 0


class GenerationEngine(Protocol):
    """Engine that continues many sequences of tokens at a time: each call ends when its own sequence does."""

    @property
    def name(self) -> str: ...

    def open(self) -> AbstractAsyncContextManager[None]:
        """Serve the calls of this event loop in the block."""
        ...

    async def generate(self, ids: Sequence[int], most: int, seed: str) -> Generation:
        """Continue `ids`, which may be a `Context`, by at most `most` tokens; the same seed, model and ids give the
        same tokens, if the engine can guarantee it. Raises InfrastructureError.
        """
        ...

    def heard(self) -> float:
        """Return the time at which the engine last showed that it works, for any caller (`time.monotonic`)."""
        ...


class EngineSource(Protocol):
    """Factory of engines for a decoding: `ends` are the ids that end a turn, `policy_step` is the policy's."""

    def __call__(self, decoding: Decoding, ends: frozenset[int], name: str, policy_step: int) -> GenerationEngine: ...


class Context(list[int]):
    """Token ids that only grow, and their JSON, which grows with them: no turn serializes the earlier ones again."""

    def __init__(self, ids: Iterable[int] = ()) -> None:
        super().__init__(ids)
        self._spelled = bytearray()
        self._count = 0

    def json(self) -> bytes:
        """Return the ids as JSON without brackets: `1,2,3`."""
        if fresh := self[self._count :]:
            self._spelled += (b"," if self._count else b"") + ",".join(map(str, fresh)).encode()
            self._count = len(self)
        return bytes(self._spelled)


@dataclass
class Trace:
    """Tokens of an attempt. `completion`, `logprobs` and `own` have the same length; `own` is 1 for tokens that the
    model drew and 0 for received ones, whose log-probability is 0. `drawn` covers only the own ones: (policy step,
    number of consecutive tokens drawn by that policy).
    """

    prompt: list[int] = field(default_factory=list)
    completion: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    drawn: list[tuple[int, int]] = field(default_factory=list)

    def add_received(self, ids: Sequence[int]) -> None:
        self.completion += ids
        self.logprobs += [0.0] * len(ids)
        self.own += [0] * len(ids)

    def add_generated(self, made: Generation) -> None:
        self.completion += made.ids
        self.logprobs += made.logprobs
        self.own += [1] * len(made.ids)
        if self.drawn and self.drawn[-1][0] == made.policy_step:
            self.drawn[-1] = (made.policy_step, self.drawn[-1][1] + len(made.ids))
        else:
            self.drawn.append((made.policy_step, len(made.ids)))

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.completion)

    def samples(self) -> list[Trace]:
        """Return the sequences that an update is computed on: here one."""
        return [self]


class Renderings:
    """Cache of conversions between text and tokens that many attempts share: attempts of a group begin alike, and often
    generate the same turn after the same history.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._openings: dict[tuple[object, ...], list[int]] = {}
        self._turns: OrderedDict[tuple[tuple[int, ...], ...], tuple[Message, tuple[Tool, ...]]] = OrderedDict()

    def opening(self, messages: Sequence[Message], tools: tuple[Tool, ...]) -> list[int]:
        """Return the ids of an agent's first prompt: see `encode_prompt`."""
        plain = all(message.role in ("system", "user") for message in messages)
        key = (build_tools_key(tools), *((message.role, message.content) for message in messages))
        if not plain or key not in self._openings:
            opening_ids = encode_prompt(self.tokenizer, messages, tools)
            if not plain:
                return opening_ids
            self._openings[key] = opening_ids
        return list(self._openings[key])

    def turn(self, ids: tuple[int, ...], before: Sequence[int], tools: tuple[Tool, ...]) -> Message:
        """Return the message that the agent wrote: see `read_turn`."""
        if len(ids) > SHARED_TOKENS:
            return read_turn(self.tokenizer, ids, before, tools)
        key = (tuple(map(id, tools)), ids, tuple(before[-SEEN_BEFORE:]))
        cached_turn = self._turns.get(key)
        if cached_turn is None:
            # Keep the tools alive, since the key contains their ids, which could be reused.
            cached_turn = self._turns[key] = read_turn(self.tokenizer, ids, before, tools), tools
            if len(self._turns) > SHARED_TURNS:
                self._turns.popitem(last=False)
        return cached_turn[0]


def build_tools_key(tools: tuple[Tool, ...]) -> str:
    """Return a text that distinguishes sets of tools."""
    return repr([(tool.name, tool.description, tool.parameters) for tool in tools])


class TokenPolicy:
    """Policy of one attempt: a turn is drawn after all tokens so far. `trace` is the training data."""

    def __init__(
        self,
        engine: GenerationEngine,
        tokenizer: Tokenizer,
        decoding: Decoding,
        seed: str,
        renderings: Renderings | None = None,
    ) -> None:
        self.engine, self.tokenizer, self.decoding, self.seed = engine, tokenizer, decoding, seed
        self.renderings = renderings or Renderings(tokenizer)
        self.trace = self.new_trace()
        self._context = Context()
        self._seen = 0

    def new_trace(self) -> Trace:
        return Trace()

    @property
    def name(self) -> str:
        return self.engine.name

    def heard(self) -> float:
        """Return the time at which the engine last showed that it works (`time.monotonic`)."""
        return self.engine.heard()

    async def act(self, observation: Conversation) -> Turn:
        """Return the next turn with its ids and log-probabilities.

        Raises LLMError `context` when the attempt's tokens are used up (it ends as `too_long`), InfrastructureError,
        and PolicyError: the template cannot render the following messages.
        """
        if observation.style != "tools":
            raise PolicyError("a policy that knows its tokens makes native calls: take the prompt style `tools`")
        self._read(observation)
        context = self._context
        before = len(context)
        most = min(self.decoding.turn_tokens, self.decoding.trajectory_tokens - before)
        if most < 1:
            raise LLMError("context", f"The attempt has used up its {self.decoding.trajectory_tokens} tokens.")
        generation = await self.engine.generate(context, most, f"{self.seed}:{observation.turn}")
        self.trace.add_generated(generation)
        self._seen = len(observation.messages)
        end = self.tokenizer.eos_token_id
        has_ended = not generation.cut and generation.ids[-1] == end
        words = generation.ids if generation.cut or has_ended else generation.ids[:-1]
        message = self.renderings.turn(words, context[-SEEN_BEFORE:], observation.tools)
        self._grow(generation.ids)
        if not has_ended:
            # Cut, or ended by another end token of the model. The conversation needs the end of the turn to continue;
            # the model did not generate it, so it bears no loss.
            self._add_received([end])
        return Turn(
            message=message,
            completion_ids=generation.ids,
            logprobs=generation.logprobs,
            usage=Usage(prompt_tokens=before, completion_tokens=len(generation.ids), requests=1),
            finish_reason="length" if generation.cut else "stop",
        )

    def _add_received(self, ids: Sequence[int]) -> None:
        self.trace.add_received(ids)
        self._grow(ids)

    def _grow(self, ids: Sequence[int]) -> None:
        """Append ids to the context of the next turn."""
        self._context += ids

    def _read(self, observation: Conversation) -> None:
        """Append the messages since the last turn: those after the agent's own message, which is at `_seen`."""
        messages = observation.messages
        try:
            if not self._seen:
                self.trace.prompt = self.renderings.opening(messages, observation.tools)
                self._context = Context(self.trace.prompt)
            else:
                self._add_received(encode_suffix(self.tokenizer, messages[self._seen], messages[self._seen + 1 :]))
        except InputError as error:
            raise PolicyError(str(error)) from error
