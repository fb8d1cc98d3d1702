"""Structured replies: read where there is no doubt, asked for again where there is, never guessed."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from pydantic import BaseModel

from synthesis.errors import InputError, MalformedReply
from synthesis.llm.asker import Asker
from synthesis.llm.reply_reader import read_json
from synthesis.llm.reply_words import MOST
from synthesis.llm.source_reader import read_code
from synthesis.llm.store import MemoryStore
from tests.llm_layer.support import Far, said, stage_call


class Wanted(BaseModel):
    word: str
    count: int = 0


GOOD = '{"word": "a", "count": 2}'


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"\n {GOOD} \n",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```",
        f"```JSON\r\n{GOOD}\r\n```",
        f"Here it is:\n\n```json\n{GOOD}\n```\nAnything else?",
        f"```json\n{GOOD}```",
        f"Sure! The object is {GOOD}. Tell me if it fits.",
        f"```json\n{GOOD}\n```\n```python\nprint(1)\n```",
        f"```json\n{GOOD}",
        '{"word": "a", "count": 2,}',
        "{'word': 'a', 'count': 2}",
        "{word: 'a', count: 2}",
        f"{GOOD}\n{GOOD}",
        f"either {GOOD} or {GOOD}",
        f"[1] {GOOD}",
        f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```",
        f'<think>{{"word": "b"}} or so</think>{GOOD}',
        f'First draft: {{"word": "b", "count": 1}} Final: {GOOD}',
    ],
)
def test_one_object_is_found_with_or_without_words_around(text: str) -> None:
    assert read_json(text, Wanted) == Wanted(word="a", count=2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"word": "a"', "cut short"),
        (f'[{GOOD}, {{"word": "b"}}', "cut short"),
        (f'{GOOD} or {{"word": "b", "count": 2}}', "two different answers"),
        (f'{{"answer": {GOOD}}}', "puts the answer into 'answer'"),
        ('{"word": , "count": 2}', "not valid JSON"),
        ('{"word": "a" "b" "c"}', "a comma is missing"),
        ("null", "no JSON object"),
        (f"[{GOOD}]", "the object"),
        ("I'm sorry, but I can't help with that.", "a refusal"),
        ("As an AI I have no such data.", "a refusal"),
        ("<!doctype html><title>Sign in</title>", "HTML"),
        ("", "no JSON object"),
        ('{"word": NaN}', "NaN"),
        ('{"word": "a", "count": Infinity}', "Infinity"),
        ('{"word": "a", "count": 1e999}', "too large"),
        ('{"word": "a", "count": ' + "9" * 5_000 + "}", "digits"),
        ('{"word": "a", "word": "b"}', "stands twice"),
        ('{"word": "a", "x": {"y": 1, "y": 2}}', "stands twice"),
        ('{"word": "a", "x": ' + "[" * 500 + "]" * 500 + "}", "levels deep"),
        ('{"x":' * 100_000, "nested more than"),
        ("{" * 100_000 + "}" * 100_000, "word: Field required"),
        ('{"count": 1}', "word: Field required"),
        ('{"word": "a", "count": "many"}', "count: "),
        ("{" + f'"word": "{"a" * MOST}"' + "}", "characters"),
    ],
)
def test_what_is_no_object_of_that_shape_says_why(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read_json(text, Wanted)
    assert len(str(caught.value)) <= 700


def test_text_that_cannot_be_kept_is_made_visible() -> None:
    assert read_json('{"word": "a\\u0000b\\ud800"}', Wanted).word == "a\u2400b\ufffd"


HOSTILE = (
    *(
        " ",
        "```a\n",
        "``` \t",
        "```",
        "{",
        "I am ",
        "<think>",
        "\n",
        "```json\n{",
        "</think>{",
        '{"a',
        '"',
        '{"a" ',
        "[{'",
    ),
    *('{"word": "b"} so ', "\n\n{'a' b", "```\ndef f():\n 1\n``` so\n", "class A:\n\n", "{}", "[[[", "/**/", "{\\"),
)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_length_comes_to_an_end(hostile: str) -> None:
    """A regular expression for fences takes quadratic time over some of these: hours for a million characters."""
    size = MOST if len(hostile) < 2 else MOST // 4
    text = ("```" + hostile * (size // len(hostile)))[:size]
    for read in (lambda: read_json(text, Wanted), lambda: read_code(text)):
        with contextlib.suppress(InputError):
            read()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[ 1," * 40 + "'a'," * (MOST // 4 - 50), "no JSON object"),
        ("[ 1," * 40 + "'" + "\"'\n" * (MOST // 3 - 60), "no JSON object"),
        ("".join(f'{{"word": "{n}"}}' for n in range(40_000)) + ' wait {"word": "a"}', "more than 1,000 objects"),
        ('```json\n{"word": "a"}\n```\n' * 30_000, "more than 1,000 objects"),
    ],
    ids=["brackets that begin nothing", "a text that does not end", "a correction at the end", "fences"],
)
def test_no_reply_is_read_again_and_again(text: str, words: str) -> None:
    """Each of these took minutes: a rest was read after each bracket, objects were compared in a square."""
    with pytest.raises(InputError, match=words):
        read_json(text, Wanted)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("".join(f"```python\ndef f{n}(): pass\n```\n" for n in range(30_000)), "more than 1,000 blocks"),
        ("```python\ndef f(): pass\n" + "a;" * 450_000 + "\n```", "at most 400,000"),
        ("def f(): pass\n" * 60_000, "no fenced block"),
    ],
    ids=["many blocks", "much code", "much code without a fence"],
)
def test_code_is_counted_before_it_is_parsed(text: str, words: str) -> None:
    """A million characters of code took a gigabyte of memory."""
    with pytest.raises(InputError, match=words):
        read_code(text)


@pytest.mark.parametrize(
    "text",
    [
        "```python\nx = 1\n```",
        "```\nx = 1\n```",
        "Here:\n```py\nx = 1\n```\nDone.",
        "```json\n{}\n```\n```python\nx = 1\n```",
    ],
)
def test_one_block_of_code_is_found(text: str) -> None:
    assert read_code(text).strip() == "x = 1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "no fenced block"),
        ("```python\nx = 1\n```\n```python\ny = 1\n```", "2 fenced blocks"),
        ("```python\nx = 1", "does not end"),
        ("I cannot write this program.", "a refusal"),
        ("", "no fenced block"),
    ],
)
def test_what_is_no_code_says_why(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_code(text)


def test_a_long_reply_is_read_while_other_items_go_on() -> None:
    async def run() -> int:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        beside = asyncio.create_task(others())
        far = Far([said(f'{{"word": "a", "more": [{"1," * 200_000} 1]}}')])
        await Asker({"author": far}, MemoryStore()).structured(stage_call("Give me a word."), Wanted)
        beside.cancel()
        return turns

    assert asyncio.run(run()) > 5


def structured(far: Far, store: MemoryStore | None = None, **options: object) -> Wanted:
    async def run() -> Wanted:
        asker = Asker({"author": far}, store if store is not None else MemoryStore())
        return await asker.structured(stage_call("Give me a word."), Wanted, **options)  # type: ignore[arg-type]

    return asyncio.run(run())


def test_a_bad_reply_is_asked_for_again_with_the_reason() -> None:
    far = Far([said("no"), said(GOOD)])
    assert structured(far).count == 2
    first, second = (messages for messages, _ in far.asked)
    assert "Give me a word." in first[-1].content
    assert '"count"' in first[-1].content, "the schema is in the words"
    assert [message.role for message in second] == ["user", "assistant", "user"]
    assert (second[1].content, "no JSON object" in second[2].content) == ("no", True)


def test_a_model_that_repeats_itself_is_really_asked_each_time() -> None:
    """Equal requests are one call: the third try must not be the stored second one."""
    far, store = Far([said("no"), said("no"), said(GOOD)]), MemoryStore()
    assert structured(far, store).word == "a"
    assert len(far.asked) == len(store.begun) == 3
    assert len(far.asked[2][0]) == 3, "what failed before the last time is not dragged along"


def test_after_the_tries_nothing_is_data() -> None:
    far, store = Far([said("no")]), MemoryStore()
    with pytest.raises(MalformedReply, match="author gave no usable reply in 3 tries") as caught:
        structured(far, store)
    assert len(far.asked) == caught.value.requests == 3
    assert store.replies[caught.value.call_key].message.content == "no"
    with pytest.raises(MalformedReply):
        structured(far, store)
    assert len(far.asked) == 3, "a second run finds them"


def test_a_check_may_refuse_and_may_wait() -> None:
    async def odd(found: Wanted) -> None:
        await asyncio.sleep(0)
        if found.count % 2 == 0:
            raise InputError("count must be odd")

    far = Far([said(GOOD), said('{"word": "b", "count": 3}')])
    assert structured(far, check=odd).word == "b"
    assert "count must be odd" in far.asked[1][0][-1].content


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (said('{"word": "a', finish_reason="length"), "cut off at the limit of tokens"),
        (said("  "), "it is empty"),
    ],
)
def test_the_envelope_says_more_than_the_text(reply: object, words: str) -> None:
    far = Far([reply, said(GOOD)])  # type: ignore[list-item]
    structured(far)
    assert words in far.asked[1][0][-1].content


def test_a_huge_reply_is_shown_again_in_part() -> None:
    far = Far([said("x" * 900_000), said(GOOD)])
    structured(far)
    assert len(far.asked[1][0][1].content) < 5_000


class Held(Far):
    structured = "json_schema"


def test_an_endpoint_known_for_it_is_held_to_the_schema() -> None:
    held, free = Held([said(GOOD)]), Far([said(GOOD)])
    structured(held)
    structured(free)
    schema = held.asked[0][1]["response_format"]["json_schema"]["schema"]
    assert list(schema.pop("properties")) == ["reasoning", "word", "count"], "room to think comes first"
    assert schema.items() <= Wanted.model_json_schema().items()
    assert free.asked[0][1] == {}
    assert held.asked[0][0] == free.asked[0][0], "the words ask all the same"


def test_an_endpoint_that_only_knows_of_json_is_asked_for_that() -> None:
    far = Held([said(GOOD)])
    far.structured = "json_object"
    structured(far)
    assert far.asked[0][1] == {"response_format": {"type": "json_object"}}


def test_how_a_reply_was_read_is_noted_beside_it() -> None:
    far, store = Far([said("no"), said("{'word': 'a',}")]), MemoryStore()
    assert structured(far, store).word == "a"
    noted = list(store.readings.values())
    assert noted[0][0] == ()
    assert "no JSON object" in noted[0][1]
    assert noted[1] == (("Python literal", "trailing comma"), "")
    assert set(store.readings) <= set(store.replies)
    plain, store = Far([said(GOOD)]), MemoryStore()
    structured(plain, store)
    assert store.readings == {}, "of most replies there is nothing to say"
