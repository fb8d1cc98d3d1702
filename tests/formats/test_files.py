"""Reading files: every form of them, and one clear sentence for what cannot be read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthesis.errors import FormatError, InputError
from synthesis.formats.envscaler import parse_environments, parse_scenarios
from synthesis.formats.envscaler_runs import parse_runs
from synthesis.formats.files import parse_entries, read_entries
from synthesis.formats.records import EnvironmentRecord, Failure
from synthesis.json_reader import Unusable, require_usable
from tests.importing import samples

RECORDS = [samples.scenario("a"), samples.scenario("b")]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (json.dumps(RECORDS), "list.json"),
        (json.dumps(RECORDS, indent=2), "pretty.json"),
        (json.dumps({"x": RECORDS[0], "y": RECORDS[1]}), "keyed.json"),
        (json.dumps({"scenarios": RECORDS}), "wrapped.json"),
        (json.dumps({"version": 1, "data": {"x": RECORDS[0], "y": RECORDS[1]}}), "data.json"),
        ("\n".join(json.dumps(record) for record in RECORDS), "lines.jsonl"),
        ("\n\n".join(json.dumps(record) for record in RECORDS) + "\n", "lines.json"),
        ("\ufeff" + json.dumps(RECORDS), "marked.json"),
    ],
)
def test_every_form_gives_the_same_records(content: str, name: str) -> None:
    plain = parse_entries(content.encode(), name)
    packed = parse_entries(gzip.compress(content.encode()), name + ".gz")
    assert [entry.value for entry in plain] == RECORDS == [entry.value for entry in packed]


def test_one_record_alone_is_a_file_of_one() -> None:
    assert [entry.value for entry in parse_entries(json.dumps(RECORDS[0]).encode())] == RECORDS[:1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b" \n ", "empty"),
        (b"\x89PNG\r\n\xff\xfe", "not a text file"),
        (b"\x1f\x8bnonsense", "gzip"),
        (b'[{"a": 1},\n {"b": }]', "line 2, column 8"),
        (b"[" * 100_000, "deeply"),
        (b"12", "number"),
        (b"not json", "line 1, column 1"),
    ],
)
def test_an_unreadable_file_is_one_clear_line(content: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        parse_entries(content, "upload.json")
    assert "\n" not in str(caught.value)
    assert "upload.json" in str(caught.value)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="directory"):
        read_entries(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        read_entries(tmp_path / "nothing.json")


def test_a_bomb_stops_at_the_limit() -> None:
    with pytest.raises(InputError, match="larger than"):
        parse_entries(gzip.compress(b" " * (3 << 20)), "bomb.gz", limit=1 << 20)


def test_a_broken_line_fails_alone() -> None:
    lines = [json.dumps(RECORDS[0]), '{"broken": ', json.dumps(RECORDS[1])]
    found = [record for _, record in parse_scenarios(parse_entries("\n".join(lines).encode(), "x.jsonl"))]
    assert [isinstance(record, Failure) for record in found] == [False, True, False]
    assert isinstance(found[1], Failure)
    assert found[1].place == "line 2"
    assert "column" in found[1].reason


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ('[{"a": {"b": NaN}}]', "[0].a.b", "NaN"),
        ('[{"a": [1e999]}]', "[0].a[0]", "too large"),
        ('[{"a": ' + "9" * 5000 + "}]", "[0].a", "digits"),
        ('[{"a": {"b": 1, "b": 2}}]', "[0].a", "twice"),
        ('[{"a": ' + "[" * 500 + "]" * 500 + "}]", "[0]", "levels deep"),
    ],
)
def test_what_cannot_be_kept_fails_its_record(text: str, place: str, reason: str) -> None:
    entry = parse_entries(text.encode())[0]
    with pytest.raises(FormatError) as caught:
        require_usable(entry.value, entry.place)
    assert caught.value.place == place
    assert reason in caught.value.reason


def test_a_key_that_stands_twice_in_the_file_is_reported() -> None:
    record = json.dumps(samples.environment("e"))
    text = f'{{"e": {record}, "e": {record}}}'
    found = [record for _, record in parse_environments(parse_entries(text.encode()))]
    assert isinstance(found[0], EnvironmentRecord)
    assert isinstance(found[1], Failure)
    assert "twice" in found[1].reason


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_change_of_a_record_is_a_record_or_a_failure(data: st.DataObject) -> None:
    for make, parse in (
        (samples.environment, parse_environments),
        (samples.scenario, parse_scenarios),
        (lambda: samples.run([samples.CLOSE], 1.0), parse_runs),
    ):
        record = make()
        path = record
        while True:
            keys = list(path) if isinstance(path, dict) else list(range(len(path)))
            key = data.draw(st.sampled_from(keys))
            inner = path[key]
            if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
                path = inner
                continue
            path[key] = data.draw(JSON)
            break
        text = json.dumps([record])
        results = list(parse(parse_entries(text.encode())))
        assert len(results) == 1
        place, found = results[0]
        if isinstance(found, Failure):
            assert found.reason
            assert "could not be read" not in found.reason
            assert found.place.startswith(place.rstrip("]"))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_records_or_an_input_error(content: bytes) -> None:
    try:
        entries = parse_entries(content)
    except InputError:
        return
    for parse in (parse_environments, parse_scenarios, parse_runs):
        assert len(list(parse(entries))) == len(entries)


def test_unusable_values_never_pass_for_records() -> None:
    assert isinstance(parse_entries(b"[NaN]")[0].value, Unusable)


@pytest.mark.parametrize(("content", "kind"), [(b"PK\x03\x04rest", "zip"), (b"BZh9rest", "bzip2")])
def test_an_archive_is_named_as_one(content: bytes, kind: str) -> None:
    with pytest.raises(InputError, match=f"a {kind} archive; unpack it"):
        parse_entries(content, "upload.json")
