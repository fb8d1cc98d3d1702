"""Policy whose history holds no earlier reasoning: each turn is drawn behind the conversation rendered without it.

A server that is asked by messages renders history so (ES B.2: "we keep only historical actions"), and SFT with
`thinking` stripped teaches so. What a turn was drawn behind is no prefix of what the next one is, so an attempt is one
sequence of tokens a turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from synthesis.contracts import Message
from synthesis.errors import InputError
from synthesis.rollout import Conversation, PolicyError
from training.policy import Generation, TokenPolicy, Trace
from training.templates import Tokenizer, spelled, suffix_ids, turn_ids, without_reasoning


@dataclass
class TurnTrace(Trace):
    """An attempt's tokens, turn by turn. `history` are the ids behind which the next turn is drawn, without earlier
    reasoning; each turn was drawn behind a prefix of it. `completion`, `logprobs` and `own` are what the model drew,
    one turn behind the other, and no sequence that it ever saw."""

    history: list[int] = field(default_factory=list)
    turns: list[tuple[int, Generation]] = field(default_factory=list)
    """(how many ids of the history stood before it, what was drawn)."""

    def told(self, ids: Sequence[int]) -> None:
        """Nothing: a turn stands in the history as it is rendered, its end included."""

    def wrote(self, made: Generation) -> None:
        super().wrote(made)
        self.turns.append((len(self.history), made))

    def samples(self) -> list[Trace]:
        """A sequence a turn, in their order; none before the first turn."""
        sequences = []
        for start, made in self.turns:
            sequence = Trace(prompt=self.history[:start])
            sequence.wrote(made)
            sequences.append(sequence)
        return sequences


class TurnPolicy(TokenPolicy):
    """One attempt's policy. The limit of a whole attempt's tokens holds for the longest sequence that it makes."""

    trace: TurnTrace

    def new_trace(self) -> TurnTrace:
        return TurnTrace()

    def _grow(self, ids: Sequence[int]) -> None:
        """Nothing: what the model drew stands in the history as it is rendered."""

    def _read(self, observation: Conversation) -> None:
        messages = observation.messages
        try:
            if not self._seen:
                self.trace.prompt = self.renderings.opening(messages, observation.tools)
                self._stand(self.trace.prompt)
                return
            answered = messages[self._seen]
            self._stand(self._written(answered))
            self._stand(suffix_ids(self.tokenizer, answered, messages[self._seen + 1 :]))
        except InputError as error:
            raise PolicyError(str(error)) from error

    def _stand(self, ids: Sequence[int]) -> None:
        """Put ids into the history, behind which the next turn is drawn."""
        self.trace.history += ids
        self._context += ids

    def _written(self, answered: Message) -> list[int]:
        """Ids of the agent's last turn in the history: rendered, or, where a call in it could not be read, as the
        agent wrote it behind its reasoning."""
        if not any(call.error for call in answered.tool_calls):
            return turn_ids(self.tokenizer, without_reasoning(spelled(answered)))
        return unread_ids(self.tokenizer, self.trace.turns[-1][1])


def unread_ids(tokenizer: Tokenizer, made: Generation) -> list[int]:
    """Ids of a turn that could not be read, up to its end, without what stands before `</think>`."""
    ids = list(made.ids)
    if ids and not made.cut:
        ids.pop()
    text = tokenizer.decode(ids, skip_special_tokens=False)
    if "</think>" in text:
        ids = tokenizer.encode(text.rpartition("</think>")[2].lstrip("\n"), add_special_tokens=False)
    return [*ids, tokenizer.eos_token_id]
