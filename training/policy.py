"""Policies that know their tokens: an attempt is one sequence, carried forward and never rendered again.

`TokenPolicy` is one attempt's policy; what makes its tokens is a `Maker`: `LocalMaker` (below) over a model in this
process, all attempts' calls in one batch, or `training.engines.served.ServedMaker` over a vLLM server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from synthesis.contracts import Turn, Usage
from synthesis.errors import EnvariumError, InputError, LLMError
from synthesis.rollout import Conversation, PolicyError
from training.config import Decoding
from training.templates import Tokenizer, prompt_ids, read_turn, suffix_ids


class Diverged(EnvariumError):
    """The model, its loss or its gradient is no number any more. It ends a job: no attempt is to blame."""


@dataclass(frozen=True)
class Generation:
    """Tokens that a model wrote, at most as many as asked for, and log p of each (natural) at the temperature they
    were drawn at; at temperature 0 of the model's plain distribution. The last one ends the turn unless `cut`."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    cut: bool


class Maker(Protocol):
    """Continues sequences of tokens."""

    @property
    def name(self) -> str: ...

    async def make(self, ids: Sequence[int], most: int, seed: str) -> Generation:
        """Continue `ids` by at most `most` tokens; the same seed, model and ids make the same tokens, where the maker
        can promise it. Raises InfrastructureError."""
        ...


@dataclass
class Trace:
    """An attempt's tokens. `completion`, `logprobs` and `own` are of one length; `own` is 1 on tokens that the model
    drew and 0 on what it was told in between, where the log-probability is 0."""

    prompt: list[int] = field(default_factory=list)
    completion: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    own: list[int] = field(default_factory=list)

    def told(self, ids: Sequence[int]) -> None:
        self.completion += ids
        self.logprobs += [0.0] * len(ids)
        self.own += [0] * len(ids)

    def wrote(self, made: Generation) -> None:
        self.completion += made.ids
        self.logprobs += made.logprobs
        self.own += [1] * len(made.ids)

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.completion)

    def context(self) -> list[int]:
        """The ids behind which the next turn is drawn."""
        return [*self.prompt, *self.completion]

    def samples(self) -> list[Trace]:
        """The sequences that an update is computed on: here one."""
        return [self]


class TokenPolicy:
    """One attempt's policy: a turn is drawn behind all tokens so far. `trace` is what training learns from."""

    def __init__(self, maker: Maker, tokenizer: Tokenizer, decoding: Decoding, seed: str) -> None:
        self.maker, self.tokenizer, self.decoding, self.seed = maker, tokenizer, decoding, seed
        self.trace = self.new_trace()
        self._seen = 0

    def new_trace(self) -> Trace:
        return Trace()

    @property
    def name(self) -> str:
        return self.maker.name

    async def act(self, observation: Conversation) -> Turn:
        """The next turn with its ids and log-probabilities.

        Raises LLMError `context` when the attempt's tokens are used up (it ends as `too_long`), InfrastructureError,
        and PolicyError: the template cannot render what follows.
        """
        if observation.style != "tools":
            raise PolicyError("a policy that knows its tokens makes native calls: take the prompt style `tools`")
        self._read(observation)
        before = self.trace.context()
        most = min(self.decoding.turn_tokens, self.decoding.trajectory_tokens - len(before))
        if most < 1:
            raise LLMError("context", f"The attempt has used up its {self.decoding.trajectory_tokens} tokens.")
        made = await self.maker.make(before, most, f"{self.seed}:{observation.turn}")
        self.trace.wrote(made)
        self._seen = len(observation.messages)
        end = self.tokenizer.eos_token_id
        if made.cut or made.ids[-1] != end:
            # Cut, or ended by another token that the model knows. The conversation needs its turn's end to go on; the
            # model did not write it, so it bears no loss.
            self.trace.told([end])
        words = made.ids if made.cut or made.ids[-1] == end else made.ids[:-1]
        return Turn(
            message=read_turn(self.tokenizer, words, before, observation.tools),
            prompt_ids=tuple(before),
            completion_ids=made.ids,
            logprobs=made.logprobs,
            usage=Usage(prompt_tokens=len(before), completion_tokens=len(made.ids), requests=1),
            finish_reason="length" if made.cut else "stop",
        )

    def _read(self, observation: Conversation) -> None:
        """Take in what was said since the last turn: behind the agent's own message, which stands at `_seen`."""
        messages = observation.messages
        try:
            if not self._seen:
                self.trace.prompt = prompt_ids(self.tokenizer, messages, observation.tools)
            else:
                self.trace.told(suffix_ids(self.tokenizer, messages[self._seen], messages[self._seen + 1 :]))
        except InputError as error:
            raise PolicyError(str(error)) from error
