"""Tokens carried forward: what an attempt is made of, how a batch is drawn, what its log-probabilities are."""

from __future__ import annotations

import asyncio
import os

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from synthesis.contracts import AnswerField  # noqa: E402
from synthesis.errors import InputError  # noqa: E402
from tests.training import small  # noqa: E402
from training.attempts import list_tries, make_attempts  # noqa: E402
from training.config import Decoding  # noqa: E402
from training.engines.local import TransformersEngine, has_full_attention  # noqa: E402
from training.engines.token_draw import draw_tokens  # noqa: E402
from training.policy import SHARED_TOKENS, Context, Diverged, Generation, Renderings  # noqa: E402
from training.templates import encode_with_agent_mask, read_turn, serialize_messages, serialize_tools  # noqa: E402

PLAIN = Decoding(turn_tokens=48, trajectory_tokens=1024)
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def attempts(engine, work, turns=5, decoding=PLAIN, at_once=8, **rest):
    return make_attempts(small.table(at_once, **rest), engine, work, turns=turns, decoding=decoding, seed="s")


def test_solved_attempt_is_one_sequence_that_was_never_rendered_again() -> None:
    tasks, rows = small.tasks(), small.rows()
    maker = small.ScriptedEngine({task.rollout.key: small.solution(task) for task in tasks})
    done = attempts(maker, list_tries(rows[:4], 1))
    assert [tried.row.id for tried in done] == [row.id for row in rows[:4]]
    for tried in done:
        assert tried.attempt.outcome == "solved"
        trace, tools = tried.trace, tried.row.rollout.program.tools
        ids, mask = encode_with_agent_mask(
            small.tokenizer(), serialize_messages(tried.attempt.messages), serialize_tools(tools)
        )
        assert [*trace.prompt, *trace.completion] == ids
        assert [0] * len(trace.prompt) + trace.own == mask
        assert len(trace.logprobs) == len(trace.completion)
        assert all((log != 0) == bool(own) for log, own in zip(trace.logprobs, trace.own, strict=True))
        last = tried.attempt.turns[-1]
        assert ids[-len(last.completion_ids) :] == list(last.completion_ids)
        assert trace.drawn == [(0, sum(trace.own))]


def test_the_submitted_answer_is_the_last_turn_of_its_sequence() -> None:
    task, row = small.tasks()[0], small.rows()[0]
    form = (AnswerField(name="table", type="number"),)
    asked = row.model_copy(update={"rollout": row.rollout.model_copy(update={"answer_form": form})})
    *work, _ = small.solution(task)
    answer = small.asks("submit_answer", table=10)
    maker = small.ScriptedEngine({row.id: [*work, small.asks("submit_answer", table="ten"), answer]})
    (tried,) = attempts(maker, [(asked, 0)], decoding=PLAIN.model_copy(update={"trajectory_tokens": 2048}))
    assert (tried.attempt.ending, tried.attempt.answer) == ("answered", '{"table": 10}')
    said = serialize_messages(tried.attempt.messages[:-1])
    ids, mask = encode_with_agent_mask(small.tokenizer(), said, serialize_tools(asked.rollout.offered_tools))
    trace = tried.trace
    assert ([*trace.prompt, *trace.completion], [0] * len(trace.prompt) + trace.own) == (ids, mask)
    assert list(tried.attempt.turns[-1].completion_ids) == small.written(answer)


def test_turn_cut_short_gets_its_end_without_loss_and_the_agent_is_told() -> None:
    row = small.rows()[0]
    tokens = small.written(small.asks("next_free", doctor="Roth"))
    maker = small.ScriptedEngine({row.id: [tokens, small.says("Done.")]})
    (tried,) = attempts(maker, [(row, 0)], decoding=PLAIN.model_copy(update={"turn_tokens": len(tokens) - 6}))
    assert tried.trace.completion[: len(tokens) - 5] == [*tokens[:-6], small.tokenizer().eos_token_id]
    assert tried.trace.own[: len(tokens) - 5] == [1] * (len(tokens) - 6) + [0]
    assert tried.attempt.turns[0].finish_reason == "length"
    assert tried.attempt.steps[1].result.error.kind == "malformed"
    assert tried.attempt.ending == "answered"


def test_attempt_that_uses_up_its_tokens_is_truncated_and_judged() -> None:
    row, task = small.rows()[0], small.tasks()[0]
    solution = small.solution(task)
    maker = small.ScriptedEngine({row.id: solution})
    first = len(small.written(solution[0]))
    (whole,) = attempts(maker, [(row, 0)])
    limit = whole.attempt.turns[1].usage.prompt_tokens
    (tried,) = attempts(maker, [(row, 0)], decoding=PLAIN.model_copy(update={"trajectory_tokens": limit}))
    assert tried.attempt.ending == "too_long"
    assert tried.attempt.reward is not None
    assert sum(tried.trace.own) == first
    assert tried.trace.length == limit


def test_horizon_ends_an_attempt() -> None:
    row, task = small.rows()[0], small.tasks()[0]
    (tried,) = attempts(small.ScriptedEngine({row.id: small.solution(task)}), [(row, 0)], turns=1)
    assert tried.attempt.ending == "turn_limit"
    assert len(tried.attempt.turns) == 1


def test_lost_maker_makes_an_attempt_without_tokens_and_without_a_reward() -> None:
    class Broken(small.ScriptedEngine):
        async def generate(self, ids, most, seed) -> Generation:
            from synthesis.errors import InfrastructureError

            raise InfrastructureError("no model")

    (tried,) = attempts(Broken({}), [(small.rows()[0], 0)])
    assert tried.attempt.outcome == "infra_error"
    assert tried.attempt.reward is None
    assert tried.trace.completion == []


def test_a_turn_that_was_written_alike_is_read_once(monkeypatch) -> None:
    read: list[tuple[int, ...]] = []

    def reading(tokenizer, ids, *rest):
        read.append(ids)
        return read_turn(tokenizer, ids, *rest)

    monkeypatch.setattr("training.policy.read_turn", reading)
    first, other = (row.rollout.program.tools for row in (small.rows()[0], small.rows()[-1]))
    renderings, before = Renderings(small.tokenizer()), [7] * 100
    call = tuple(small.written(small.asks("next_free", doctor="Roth")))
    long = call * (SHARED_TOKENS // len(call) + 1)
    asked = [
        (call, before, first), (call, before, first), (call, before, other), (call, [*before, 8], first),
        (call[:-2], before, first), (long, before, first), (long, before, first), (call, [9, *before], first),
    ]  # fmt: skip
    said = [renderings.turn(*one) for one in asked]
    assert said == [read_turn(small.tokenizer(), *one) for one in asked]
    # Again of what was read before: the second, and the last, which differs too far back to be looked at.
    assert read == [ids for place, (ids, _, _) in enumerate(asked) if place not in (1, 7)]


def test_a_conversations_json_grows_with_it() -> None:
    context = Context([1, 22])
    assert context.json() == b"1,22"
    context += [3]
    context += [4, 5]
    assert context.json() == context.json() == b"1,22,3,4,5"
    assert Context().json() == b""


def engine_of(**rest):
    tokenizer = small.tokenizer()
    manner = {"ends": {tokenizer.eos_token_id}, "pad": tokenizer.pad_token_id, "temperature": 1.0, "at_once": 8}
    return TransformersEngine(small.model().eval(), name="m", **(manner | rest))


def test_nobody_waits_for_others_and_log_probabilities_are_the_models() -> None:
    engine, passes = engine_of(), []
    step = engine.batch.step
    engine.batch.step = lambda joining=(): passes.append((len(engine.batch.rows), len(joining))) or step(joining)
    model, decoding = engine.model, PLAIN.model_copy(update={"turn_tokens": 12})
    done = attempts(engine, list_tries(small.rows()[:4], 3), turns=3, decoding=decoding)
    assert len(done) == 12
    assert max(running + joining for running, joining in passes) == 8
    assert any(running and joining for running, joining in passes), "some joined while others were under way"
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


async def turns_of(engine, conversations, turns: int, late: bool) -> list[list[Generation]]:
    """Each conversation's turns; between them three tokens are told. With `late` they begin one after the other."""

    async def talk(place: int, ids: list[int]) -> list[Generation]:
        await asyncio.sleep(0.02 * place if late else 0)
        context, made = Context(ids), []
        for turn in range(turns):
            made.append(await engine.generate(context, 4 + place, f"{place}:{turn}"))
            context += [*made[-1].ids, 7, 8, 9]
        return made

    async with engine.open():
        return await asyncio.gather(*(talk(place, ids) for place, ids in enumerate(conversations)))


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 0.6), (0.0, 1.0)])
def test_what_an_attempt_draws_depends_neither_on_its_batch_nor_on_what_was_kept(
    temperature: float, top_p: float
) -> None:
    tokenizer = small.tokenizer()
    texts = ("Send all bolts to Oslo.", "Turn on hall", "If Atlas is late", "Book Ada with Roth, first free day.")
    conversations = [tokenizer.encode(text) for text in texts]
    manner = {"temperature": temperature, "top_p": top_p}

    def turns(late: bool, **rest) -> list[list[Generation]]:
        engine = engine_of(**manner, **rest)
        if "at_once" in rest:
            engine.batch.keep = 0  # each turn computes the whole conversation
        return asyncio.run(asyncio.wait_for(turns_of(engine, conversations, 3, late), 60))

    together, late, alone = turns(False), turns(True), turns(False, at_once=1)
    for others in (late, alone):
        for ours, theirs in zip(together, others, strict=True):
            assert [one.ids for one in ours] == [one.ids for one in theirs]
            for one, other in zip(ours, theirs, strict=True):
                assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_a_turn_computes_only_what_is_new() -> None:
    engine, seen = engine_of(), []
    model = engine.model
    forward = model.forward
    model.forward = lambda *args, **named: seen.append(named["input_ids"].shape[1]) or forward(*args, **named)
    try:
        ids = small.tokenizer().encode("Send all bolts to Oslo, and then all nuts, and then all screws.")
        asyncio.run(asyncio.wait_for(turns_of(engine, [ids], 2, False), 20))
    finally:
        del model.forward
    first, second = [width for width in seen if width > 1]
    assert first == len(ids)
    assert second <= 4  # the last token drawn and the three that were told


def test_what_a_group_begins_with_is_computed_once_and_draws_stay_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, passes = engine_of(), []
    forward = engine.model.forward
    noted = lambda **given: passes.append(tuple(given["input_ids"].shape)) or forward(**given)  # noqa: E731
    monkeypatch.setattr(engine.model, "forward", noted)
    prompts = [[5, 6, 7, 8], [9, 10], [5, 6, 7, 8], [5, 6, 7, 8]]

    async def go(asked: list[int]) -> list[Generation]:
        async with engine.open():
            return await asyncio.gather(*(engine.generate(Context(prompts[one]), 4, f"s{one}") for one in asked))

    together = asyncio.run(go([0, 1, 2, 3]))
    assert passes[0] == (2, 4), "two beginnings for four"
    assert {shape[0] for shape in passes[1:]} <= {1, 2, 3, 4}
    for place, made in enumerate(together):
        (alone,) = asyncio.run(go([place]))
        assert made.ids == alone.ids
        assert made.logprobs == pytest.approx(alone.logprobs, abs=1e-4)
    assert together[0].ids != together[2].ids, "each draws by its own seed"


def test_layers_that_keep_something_else_are_refused() -> None:
    from types import SimpleNamespace

    text = SimpleNamespace(layer_types=["full_attention", "linear_attention"])
    strange = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda decoder: text))
    with pytest.raises(InputError, match="linear_attention"):
        has_full_attention(strange)


def test_drawing_by_inversion_by_hand() -> None:
    """p = (.5, .3, .2): numbers below .5 give 0, below .8 give 1, else 2; with top_p .6 only 0 and 1 are left."""
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.2]])).repeat(6, 1)
    numbers = torch.tensor([0.0, 0.49, 0.51, 0.79, 0.81, 0.999], dtype=torch.float64)
    tokens, logs = draw_tokens(logits, numbers, 1.0, 1.0)
    assert tokens.tolist() == [0, 0, 1, 1, 2, 2]
    assert logs.exp().tolist() == pytest.approx([0.5, 0.5, 0.3, 0.3, 0.2, 0.2])
    cut, _ = draw_tokens(logits, numbers, 1.0, 0.6)
    assert cut.tolist() == [0, 0, 0, 1, 1, 1]  # .5 / .8 = .625
    greedy, plain = draw_tokens(logits, numbers, 0.0, 1.0)
    assert greedy.tolist() == [0] * 6
    assert plain.exp().tolist() == pytest.approx([0.5] * 6)
    # At temperature 2 probabilities go with their roots.
    _, warm = draw_tokens(logits[:1], numbers[:1], 2.0, 1.0)
    assert warm.exp().item() == pytest.approx(0.5**0.5 / (0.5**0.5 + 0.3**0.5 + 0.2**0.5))


@pytest.mark.parametrize("logits", [["nan", 1, 2], [1, 2, "nan"], ["inf", 1, 2], [1, 2, "inf"], ["-inf"] * 3])
@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 0.5), (0.0, 1.0)])
def test_model_that_diverged_is_told_apart_from_a_policy_that_errs(
    logits: list[str | int], temperature: float, top_p: float
) -> None:
    rows = torch.tensor([[1.0, 2.0, 3.0], [float(one) for one in logits]])
    with pytest.raises(Diverged, match="no numbers any more"):
        draw_tokens(rows, torch.zeros(2, dtype=torch.float64), temperature, top_p)


def test_token_that_cannot_come_is_no_divergence() -> None:
    tokens, _ = draw_tokens(torch.tensor([[float("-inf"), 1.0]]), torch.zeros(1, dtype=torch.float64), 1.0, 1.0)
    assert tokens.tolist() == [1]


def test_attempt_past_its_deadline_leaves_the_batch() -> None:
    engine = engine_of(at_once=1)

    async def go() -> list[bool]:
        async with engine.open():
            late = asyncio.create_task(engine.generate([5, 6], 500, "late"))
            await asyncio.sleep(0.05)
            late.cancel()
            made = await engine.generate([5, 6], 2, "next")
            return [late.cancelled(), len(made.ids) <= 2]

    assert asyncio.run(asyncio.wait_for(go(), 20)) == [True, True]


def test_stopping_cancels_what_is_under_way() -> None:
    class Slow(small.ScriptedEngine):
        async def generate(self, ids, most, seed) -> Generation:
            await asyncio.sleep(30)
            raise AssertionError

    asked = iter([False] * 3 + [True] * 10_000)
    done = attempts(Slow({}), list_tries(small.rows()[:2], 1), stopped=lambda: next(asked))
    assert {tried.attempt.outcome for tried in done} <= {"cancelled"}


def test_turn_that_ends_in_another_of_the_models_ends_is_closed_for_it() -> None:
    row, pad = small.rows()[0], small.tokenizer().pad_token_id
    tokens = [*small.written(small.says("Done."))[:-1], pad]

    class Other(small.ScriptedEngine):
        async def generate(self, ids, most, seed) -> Generation:
            return Generation(tuple(tokens), (-1.0,) * len(tokens), False)

    (tried,) = attempts(Other({}), [(row, 0)])
    assert tried.trace.completion == [*tokens, small.tokenizer().eos_token_id]
    assert tried.trace.own == [1] * len(tokens) + [0]
    assert tried.attempt.answer == "Done."
