"""Tokens carried forward: what an attempt is made of, how a batch is drawn, what its log-probabilities are."""

from __future__ import annotations

import asyncio
import os

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from tests.training import small  # noqa: E402
from training.attempts import PendingTurns, run, tries  # noqa: E402
from training.config import Decoding  # noqa: E402
from training.engines import local  # noqa: E402
from training.engines.local import EngineMaker, LocalMaker, continue_all, draw  # noqa: E402
from training.policy import Diverged, Generation  # noqa: E402
from training.templates import agent_mask, offered, spelled  # noqa: E402

PLAIN = Decoding(turn_tokens=48, trajectory_tokens=1024)
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def attempts(maker, work, turns=5, decoding=PLAIN, at_once=8, opened=None, crowd=None, **rest):
    import contextlib

    return run(
        small.table(at_once, **rest), maker, opened or contextlib.nullcontext, crowd or PendingTurns(), work,
        turns=turns, decoding=decoding, seed="s",
    )  # fmt: skip


def test_solved_attempt_is_one_sequence_that_was_never_rendered_again() -> None:
    tasks, rows = small.tasks(), small.rows()
    maker = small.ScriptedMaker({task.rollout.key: small.solution(task) for task in tasks})
    done = attempts(maker, tries(rows[:4], 1))
    assert [tried.row.id for tried in done] == [row.id for row in rows[:4]]
    for tried in done:
        assert tried.attempt.outcome == "solved"
        trace, tools = tried.trace, tried.row.rollout.program.tools
        names = {call.id: call.name for message in tried.attempt.messages for call in message.tool_calls}
        ids, mask = agent_mask(
            small.tokenizer(), [spelled(message, names) for message in tried.attempt.messages], offered(tools)
        )
        assert [*trace.prompt, *trace.completion] == ids
        assert [0] * len(trace.prompt) + trace.own == mask
        assert len(trace.logprobs) == len(trace.completion)
        assert all((log != 0) == bool(own) for log, own in zip(trace.logprobs, trace.own, strict=True))
        last = tried.attempt.turns[-1]
        assert [*last.prompt_ids, *last.completion_ids] == ids


def test_turn_cut_short_gets_its_end_without_loss_and_the_agent_is_told() -> None:
    row = small.rows()[0]
    tokens = small.written(small.asks("next_free", doctor="Roth"))
    maker = small.ScriptedMaker({row.id: [tokens, small.says("Done.")]})
    (tried,) = attempts(maker, [(row, 0)], decoding=PLAIN.model_copy(update={"turn_tokens": len(tokens) - 6}))
    assert tried.trace.completion[: len(tokens) - 5] == [*tokens[:-6], small.tokenizer().eos_token_id]
    assert tried.trace.own[: len(tokens) - 5] == [1] * (len(tokens) - 6) + [0]
    assert tried.attempt.turns[0].finish_reason == "length"
    assert tried.attempt.steps[1].result.error.kind == "malformed"
    assert tried.attempt.ending == "answered"


def test_attempt_that_uses_up_its_tokens_is_truncated_and_judged() -> None:
    row, task = small.rows()[0], small.tasks()[0]
    solution = small.solution(task)
    maker = small.ScriptedMaker({row.id: solution})
    first = len(small.written(solution[0]))
    (whole,) = attempts(maker, [(row, 0)])
    limit = len(whole.attempt.turns[1].prompt_ids)
    (tried,) = attempts(maker, [(row, 0)], decoding=PLAIN.model_copy(update={"trajectory_tokens": limit}))
    assert tried.attempt.ending == "too_long"
    assert tried.attempt.reward is not None
    assert sum(tried.trace.own) == first
    assert tried.trace.length == limit


def test_horizon_ends_an_attempt() -> None:
    row, task = small.rows()[0], small.tasks()[0]
    (tried,) = attempts(small.ScriptedMaker({row.id: small.solution(task)}), [(row, 0)], turns=1)
    assert tried.attempt.ending == "turn_limit"
    assert len(tried.attempt.turns) == 1


def test_lost_maker_makes_an_attempt_without_tokens_and_without_a_reward() -> None:
    class Broken(small.ScriptedMaker):
        async def make(self, ids, most, seed) -> Generation:
            from synthesis.errors import InfrastructureError

            raise InfrastructureError("no model")

    (tried,) = attempts(Broken({}), [(small.rows()[0], 0)])
    assert tried.attempt.outcome == "infra_error"
    assert tried.attempt.reward is None
    assert tried.trace.completion == []


def test_many_calls_are_one_batch_and_log_probabilities_are_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "PATIENCE_S", 60.0)
    model = small.model().eval()
    crowd, sizes = PendingTurns(), []
    tokenizer = small.tokenizer()
    maker = LocalMaker(
        model, name="m", ends={tokenizer.eos_token_id}, pad=tokenizer.pad_token_id, temperature=1.0, at_once=8,
        expected=crowd,
    )  # fmt: skip
    compute = maker._compute
    maker._compute = lambda batch: sizes.append(len(batch)) or compute(batch)
    decoding = PLAIN.model_copy(update={"turn_tokens": 12})
    done = attempts(maker, tries(small.rows()[:4], 2), turns=2, decoding=decoding, opened=maker.open, crowd=crowd)
    assert len(done) == 8
    assert max(sizes) == 8
    for tried in done:
        ids = torch.tensor([[*tried.trace.prompt, *tried.trace.completion]])
        with torch.no_grad():
            logs = torch.log_softmax(model(ids).logits[0, :-1], -1)
        start = len(tried.trace.prompt) - 1
        for place, (token, own, log) in enumerate(
            zip(tried.trace.completion, tried.trace.own, tried.trace.logprobs, strict=True)
        ):
            if own:
                assert log == pytest.approx(logs[start + place, token].item(), abs=1e-4)


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 1.0), (1.0, 0.6), (0.0, 1.0)])
def test_what_an_attempt_draws_does_not_depend_on_its_batch(temperature: float, top_p: float) -> None:
    model, tokenizer = small.model().eval(), small.tokenizer()
    sequences = [tokenizer.encode(text) for text in ("Send all bolts to Oslo.", "Turn on hall", "If Atlas is late")]
    options = {"ends": frozenset({tokenizer.eos_token_id}), "pad": tokenizer.pad_token_id}
    options |= {"temperature": temperature, "top_p": top_p}
    together = continue_all(model, sequences, [10, 4, 3], ["a", "b", "c"], **options)
    alone = [
        continue_all(model, [ids], [most], [seed], **options)[0]
        for ids, most, seed in zip(sequences, [10, 4, 3], "abc", strict=True)
    ]
    assert [one.ids for one in together] == [one.ids for one in alone]
    for one, other in zip(together, alone, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    assert len(together[1].ids) <= 4


def test_drawing_by_inversion_by_hand() -> None:
    """p = (.5, .3, .2): numbers below .5 give 0, below .8 give 1, else 2; with top_p .6 only 0 and 1 are left."""
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.2]])).repeat(6, 1)
    numbers = torch.tensor([0.0, 0.49, 0.51, 0.79, 0.81, 0.999], dtype=torch.float64)
    tokens, logs = draw(logits, numbers, 1.0, 1.0)
    assert tokens.tolist() == [0, 0, 1, 1, 2, 2]
    assert logs.exp().tolist() == pytest.approx([0.5, 0.5, 0.3, 0.3, 0.2, 0.2])
    cut, _ = draw(logits, numbers, 1.0, 0.6)
    assert cut.tolist() == [0, 0, 0, 1, 1, 1]  # .5 / .8 = .625
    greedy, plain = draw(logits, numbers, 0.0, 1.0)
    assert greedy.tolist() == [0] * 6
    assert plain.exp().tolist() == pytest.approx([0.5] * 6)
    # At temperature 2 probabilities go with their roots.
    _, warm = draw(logits[:1], numbers[:1], 2.0, 1.0)
    assert warm.exp().item() == pytest.approx(0.5**0.5 / (0.5**0.5 + 0.3**0.5 + 0.2**0.5))


def test_model_that_diverged_is_told_apart_from_a_policy_that_errs() -> None:
    with pytest.raises(Diverged, match="no numbers any more"):
        draw(torch.tensor([[float("nan"), 1.0]]), torch.zeros(1, dtype=torch.float64), 1.0, 1.0)


def test_attempt_past_its_deadline_leaves_the_batch() -> None:
    maker = LocalMaker(
        small.model(), name="m", ends={small.tokenizer().eos_token_id}, pad=0, temperature=1.0, expected=lambda: 1
    )

    async def go() -> list[bool]:
        async with maker.open():
            late = asyncio.create_task(maker.make([5, 6], 500, "late"))
            await asyncio.sleep(0.05)
            late.cancel()
            made = await maker.make([5, 6], 2, "next")
            return [late.cancelled(), len(made.ids) <= 2]

    assert asyncio.run(asyncio.wait_for(go(), 20)) == [True, True]


def test_stopping_cancels_what_is_under_way() -> None:
    class Slow(small.ScriptedMaker):
        async def make(self, ids, most, seed) -> Generation:
            await asyncio.sleep(30)
            raise AssertionError

    asked = iter([False] * 3 + [True] * 10_000)
    done = attempts(Slow({}), tries(small.rows()[:2], 1), stopped=lambda: next(asked))
    assert {tried.attempt.outcome for tried in done} <= {"cancelled"}


def test_engine_beside_the_model_is_asked_by_ids_and_read_by_ids() -> None:
    """vLLM's engine stood for by an object with its two shapes: requests by token ids, log-probabilities by id."""
    from types import SimpleNamespace

    end = small.tokenizer().eos_token_id
    asked: list = []

    class Llm:
        def generate(self, prompts, sampling_params, use_tqdm):
            asked.extend(zip(prompts, sampling_params, strict=True))
            answers = [[7, 8, end], [9]]
            return [
                SimpleNamespace(
                    outputs=[
                        SimpleNamespace(
                            token_ids=ids, logprobs=[{token: SimpleNamespace(logprob=-0.25)} for token in ids]
                        )
                    ]
                )
                for ids in answers
            ]

    maker = EngineMaker(Llm(), dict, name="m", ends={end}, pad=0, temperature=0.7, expected=lambda: 2)

    async def go() -> list[Generation]:
        async with maker.open():
            return await asyncio.gather(maker.make([1, 2], 5, "a"), maker.make([3], 1, "b"))

    made = asyncio.run(asyncio.wait_for(go(), 20))
    assert made == [Generation((7, 8, end), (-0.25,) * 3, False), Generation((9,), (-0.25,), True)]
    assert [prompt["prompt_token_ids"] for prompt, _ in asked] == [[1, 2], [3]]
    assert [params["max_tokens"] for _, params in asked] == [5, 1]
    assert asked[0][1] == {
        "n": 1, "temperature": 0.7, "top_p": 1.0, "max_tokens": 5, "logprobs": 0, "stop_token_ids": [end]
    }  # fmt: skip


def test_turn_that_ends_in_another_of_the_models_ends_is_closed_for_it() -> None:
    row, pad = small.rows()[0], small.tokenizer().pad_token_id
    tokens = [*small.written(small.says("Done."))[:-1], pad]

    class Other(small.ScriptedMaker):
        async def make(self, ids, most, seed) -> Generation:
            return Generation(tuple(tokens), (-1.0,) * len(tokens), False)

    (tried,) = attempts(Other({}), [(row, 0)])
    assert tried.trace.completion == [*tokens, small.tokenizer().eos_token_id]
    assert tried.trace.own == [1] * len(tokens) + [0]
    assert tried.attempt.answer == "Done."
