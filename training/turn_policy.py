"""Policy whose history has no earlier reasoning: each turn is drawn after the conversation rendered without it.

A server that is asked by messages renders history in this way (ES B.2: "we keep only historical actions"), and SFT with
`thinking` stripped trains on it. The context of a turn is no prefix of the next one's, so an attempt is one sequence of
tokens per turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from synthesis.contracts import Message
from synthesis.errors import InputError
from synthesis.rollout import Conversation, PolicyError
from training.policy import Generation, TokenPolicy, Trace
from training.templates import Tokenizer, drop_reasoning, encode_suffix, encode_turn, serialize_message


@dataclass
class TurnTrace(Trace):
    """Tokens of an attempt, turn by turn. `history` are the ids after which the next turn is drawn, without earlier
    reasoning; each turn was drawn after a prefix of it. `completion`, `logprobs` and `own` are the tokens that the
    model drew, one turn after another, which is no sequence that it ever saw.
    """

    history: list[int] = field(default_factory=list)
    turns: list[tuple[int, Generation]] = field(default_factory=list)
    """(how many ids of the history came before it, what was drawn)."""

    def add_received(self, ids: Sequence[int]) -> None:
        """Do nothing: the history contains turns as they are rendered, their end included."""

    def add_generated(self, made: Generation) -> None:
        super().add_generated(made)
        self.turns.append((len(self.history), made))

    def samples(self) -> list[Trace]:
        """Return one sequence per turn, in their order; none before the first turn."""
        sequences = []
        for start, made in self.turns:
            sequence = Trace(prompt=self.history[:start])
            sequence.add_generated(made)
            sequences.append(sequence)
        return sequences


class TurnPolicy(TokenPolicy):
    """Policy of one attempt. The limit of a whole attempt's tokens applies to the longest sequence that it makes."""

    trace: TurnTrace

    def new_trace(self) -> TurnTrace:
        return TurnTrace()

    def _grow(self, ids: Sequence[int]) -> None:
        """Do nothing: the history contains the drawn tokens as they are rendered."""

    def _read(self, observation: Conversation) -> None:
        messages = observation.messages
        try:
            if not self._seen:
                self.trace.prompt = self.renderings.opening(messages, observation.tools)
                self._extend_history(self.trace.prompt)
                return
            answered_turn = messages[self._seen]
            self._extend_history(self._render_turn(answered_turn))
            self._extend_history(encode_suffix(self.tokenizer, answered_turn, messages[self._seen + 1 :]))
        except InputError as error:
            raise PolicyError(str(error)) from error

    def _extend_history(self, ids: Sequence[int]) -> None:
        """Append ids to the history, after which the next turn is drawn."""
        self.trace.history += ids
        self._context += ids

    def _render_turn(self, answered: Message) -> list[int]:
        """Return the ids of the agent's last turn in the history: rendered, or, if a call in it could not be read, as
        the agent wrote it after its reasoning.
        """
        if not any(call.error for call in answered.tool_calls):
            return encode_turn(self.tokenizer, drop_reasoning(serialize_message(answered)))
        return get_unread_ids(self.tokenizer, self.trace.turns[-1][1])


def get_unread_ids(tokenizer: Tokenizer, made: Generation) -> list[int]:
    """Return the ids of a turn that could not be read, up to its end, without the part before `</think>`."""
    ids = list(made.ids)
    if ids and not made.cut:
        ids.pop()
    text = tokenizer.decode(ids, skip_special_tokens=False)
    if "</think>" in text:
        ids = tokenizer.encode(text.rpartition("</think>")[2].lstrip("\n"), add_special_tokens=False)
    return [*ids, tokenizer.eos_token_id]
