"""Policies that know their tokens: an attempt is one sequence, carried forward and never rendered again.

`TokenPolicy` is one attempt's policy; what writes its tokens is a `GenerationEngine` (`training.engines`).
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
from training.templates import SEEN_BEFORE, Tokenizer, prompt_ids, read_turn, suffix_ids

SHARED_TURNS = 1_024
"""So many turns are remembered as they were read,"""
SHARED_TOKENS = 256
"""none of more tokens: hardly two long ones are the same."""


class Diverged(EnvariumError):
    """The model, its loss or its gradient is no number any more. It ends a job: no attempt is to blame."""


@dataclass(frozen=True)
class Generation:
    """Tokens that a model wrote, at most as many as asked for, and log p of each (natural) at the temperature they
    were drawn at; at temperature 0 of the model's plain distribution. The last one ends the turn unless `cut`.
    `policy_step` is how many updates the policy that wrote them had had."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    cut: bool
    policy_step: int = 0


class GenerationEngine(Protocol):
    """Continues sequences of tokens, many at a time: each call ends when its own sequence does."""

    @property
    def name(self) -> str: ...

    def open(self) -> AbstractAsyncContextManager[None]:
        """For the block, serve the calls of this event loop."""
        ...

    async def generate(self, ids: Sequence[int], most: int, seed: str) -> Generation:
        """Continue `ids`, which may be a `Context`, by at most `most` tokens; the same seed, model and ids give the
        same tokens, where the engine can promise it. Raises InfrastructureError."""
        ...

    def heard(self) -> float:
        """When the engine last showed that it works, for whomever, on the clock of `time.monotonic`."""
        ...


class EngineSource(Protocol):
    """Makes engines that draw in a manner: `ends` are the ids that end a turn, `policy_step` is the policy's."""

    def __call__(self, decoding: Decoding, ends: frozenset[int], name: str, policy_step: int) -> GenerationEngine: ...


class Context(list[int]):
    """Token ids that only grow, and their JSON, which grows with them: no turn spells the earlier ones again."""

    def __init__(self, ids: Iterable[int] = ()) -> None:
        super().__init__(ids)
        self._spelled = bytearray()
        self._count = 0

    def json(self) -> bytes:
        """`1,2,3`: what stands between the brackets."""
        if fresh := self[self._count :]:
            self._spelled += (b"," if self._count else b"") + ",".join(map(str, fresh)).encode()
            self._count = len(self)
        return bytes(self._spelled)


@dataclass
class Trace:
    """An attempt's tokens. `completion`, `logprobs` and `own` are of one length; `own` is 1 on tokens that the model
    drew and 0 on what it was told in between, where the log-probability is 0. `drawn` is of the own ones alone:
    (policy step, how many tokens in a row were drawn by that policy)."""

    prompt: list[int] = field(default_factory=list)
    completion: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    drawn: list[tuple[int, int]] = field(default_factory=list)

    def told(self, ids: Sequence[int]) -> None:
        self.completion += ids
        self.logprobs += [0.0] * len(ids)
        self.own += [0] * len(ids)

    def wrote(self, made: Generation) -> None:
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
        """The sequences that an update is computed on: here one."""
        return [self]


class Renderings:
    """What stands between words and tokens and is the same for many attempts: those of a group begin alike, and often
    write the same behind the same. Each is rendered or read once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._openings: dict[tuple[object, ...], list[int]] = {}
        self._turns: OrderedDict[tuple[tuple[int, ...], ...], tuple[Message, tuple[Tool, ...]]] = OrderedDict()

    def opening(self, messages: Sequence[Message], tools: tuple[Tool, ...]) -> list[int]:
        """The ids of what an agent sees first: see `prompt_ids`."""
        plain = all(message.role in ("system", "user") for message in messages)
        key = (tools_key(tools), *((message.role, message.content) for message in messages))
        if not plain or key not in self._openings:
            made = prompt_ids(self.tokenizer, messages, tools)
            if not plain:
                return made
            self._openings[key] = made
        return list(self._openings[key])

    def turn(self, ids: tuple[int, ...], before: Sequence[int], tools: tuple[Tool, ...]) -> Message:
        """What the agent wrote: see `read_turn`."""
        if len(ids) > SHARED_TOKENS:
            return read_turn(self.tokenizer, ids, before, tools)
        key = (tuple(map(id, tools)), ids, tuple(before[-SEEN_BEFORE:]))
        found = self._turns.get(key)
        if found is None:
            # With the tools, or their place in memory could become that of others.
            found = self._turns[key] = read_turn(self.tokenizer, ids, before, tools), tools
            if len(self._turns) > SHARED_TURNS:
                self._turns.popitem(last=False)
        return found[0]


def tools_key(tools: tuple[Tool, ...]) -> str:
    """What tells sets of tools apart."""
    return repr([(tool.name, tool.description, tool.parameters) for tool in tools])


class TokenPolicy:
    """One attempt's policy: a turn is drawn behind all tokens so far. `trace` is what training learns from."""

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
        """When what this policy waits for last showed that it works (`time.monotonic`)."""
        return self.engine.heard()

    async def act(self, observation: Conversation) -> Turn:
        """The next turn with its ids and log-probabilities.

        Raises LLMError `context` when the attempt's tokens are used up (it ends as `too_long`), InfrastructureError,
        and PolicyError: the template cannot render what follows.
        """
        if observation.style != "tools":
            raise PolicyError("a policy that knows its tokens makes native calls: take the prompt style `tools`")
        self._read(observation)
        context = self._context
        before = len(context)
        most = min(self.decoding.turn_tokens, self.decoding.trajectory_tokens - before)
        if most < 1:
            raise LLMError("context", f"The attempt has used up its {self.decoding.trajectory_tokens} tokens.")
        made = await self.engine.generate(context, most, f"{self.seed}:{observation.turn}")
        self.trace.wrote(made)
        self._seen = len(observation.messages)
        end = self.tokenizer.eos_token_id
        ended = not made.cut and made.ids[-1] == end
        words = made.ids if made.cut or ended else made.ids[:-1]
        message = self.renderings.turn(words, context[-SEEN_BEFORE:], observation.tools)
        self._grow(made.ids)
        if not ended:
            # Cut, or ended by another token that the model knows. The conversation needs its turn's end to go on; the
            # model did not write it, so it bears no loss.
            self._tell([end])
        return Turn(
            message=message,
            completion_ids=made.ids,
            logprobs=made.logprobs,
            usage=Usage(prompt_tokens=before, completion_tokens=len(made.ids), requests=1),
            finish_reason="length" if made.cut else "stop",
        )

    def _tell(self, ids: Sequence[int]) -> None:
        self.trace.told(ids)
        self._grow(ids)

    def _grow(self, ids: Sequence[int]) -> None:
        """The next turn is drawn behind these, too."""
        self._context += ids

    def _read(self, observation: Conversation) -> None:
        """Take in what was said since the last turn: behind the agent's own message, which stands at `_seen`."""
        messages = observation.messages
        try:
            if not self._seen:
                self.trace.prompt = self.renderings.opening(messages, observation.tools)
                self._context = Context(self.trace.prompt)
            else:
                self._tell(suffix_ids(self.tokenizer, messages[self._seen], messages[self._seen + 1 :]))
        except InputError as error:
            raise PolicyError(str(error)) from error
