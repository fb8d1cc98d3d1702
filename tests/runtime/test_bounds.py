"""Values of few bytes that would cost the host hours or gigabytes: refused before anything is computed with them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from synthesis.contracts import Limits
from synthesis.errors import ProgramEnded, StateError
from synthesis.json_weight import estimate_weight
from synthesis.runtime import Sandbox, apply_patch, decode_state, encode_state, frames
from synthesis.runtime.child import wire
from synthesis.runtime.child.bounds import MOST_ALIKE
from tests.runtime.programs import act, body

MIB = 1 << 20
PRIME = 2**61 - 1
"""Whole numbers that differ by this have one hash."""


@pytest.fixture(scope="module")
def narrow() -> Iterator[Sandbox]:
    """Half of 64 MiB is what one reply may take."""
    made = Sandbox(limits=Limits(memory_mib=64, call_seconds=1.0))
    yield made
    made.close()


def huge(digits: int) -> dict[str, str]:
    return {"$int": "f" * digits}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (huge(4_000_000), "more than 1,000 digits"),
        ({"$range": [0, huge(800_000), huge(400_000)]}, "more than 1,000 digits"),
        ({"$fraction": "1e30000000"}, "no fraction"),
        ({"$fraction": "7" * 1_001 + "/3"}, "no fraction"),
        ({"$decimal": "9" * 1_100}, "more than 1,000 digits"),
        ({"$decimal": "1e30000000"}, "exponent"),
        ({"$set": [{"$int": hex(n * PRIME)} for n in range(2_000)]}, "same hash"),
        ({"$dict": [[{"$tuple": [{"$int": hex(n * PRIME)}]}, 1] for n in range(2_000)]}, "same hash"),
        ({"$counter": [[{"$int": hex(n * PRIME)}, 1] for n in range(2_000)]}, "same hash"),
    ],
)
def test_what_costs_hours_is_refused_at_once(value: Any, why: str) -> None:
    with pytest.raises(StateError, match=why):
        decode_state(json.loads(json.dumps({"v": value})))


def test_what_programs_keep_goes_there_and_back() -> None:
    numbers = [10**999, -(10**999), Fraction(10**900, 7), Decimal("1." + "3" * 900), Decimal("1e-9999"), Decimal("NaN")]
    assert str(decode_state(encode_state(numbers))) == str(numbers)
    many = {(n, str(n)) for n in range(20_000)}
    assert decode_state(encode_state(many)) == many
    alike = {n * PRIME for n in range(MOST_ALIKE)}
    assert decode_state(encode_state(alike)) == alike


@pytest.mark.parametrize("value", [10**1_000, Fraction(1, 10**1_000), Decimal("1e10001"), [Decimal("7" * 1_001)]])
def test_what_is_refused_there_is_not_written_here(value: Any) -> None:
    with pytest.raises(StateError):
        encode_state(value)


def test_many_objects_of_one_class_are_told_apart() -> None:
    """Their hashes were once those of their class alone: a set of them took a comparison of each with each."""
    members = [{"$object": {"class": "Point", "attributes": {"x": n, "tags": []}}} for n in range(5_000)]
    assert len(decode_state({"$set": members})) == 5_000


def test_a_program_is_told_that_its_number_is_too_long(sandbox: Sandbox) -> None:
    made = act(sandbox, "return 10 ** 5000")
    assert (made.ok, made.error.kind) == (False, "unencodable")
    assert "more than 1,000 digits" in made.error.message


def test_a_patch_that_moves_a_long_list_again_and_again_is_refused() -> None:
    state = {"l": list(range(200_000))}
    patch = [{"op": "add", "path": "/l/0", "value": 1}] * 10_000
    with pytest.raises(StateError, match="moves items"):
        apply_patch(state, patch)
    assert len(apply_patch(state, [{"op": "add", "path": "/l/-", "value": 1}] * 200_000)["l"]) == 400_000


def test_a_forged_frame_of_too_many_values_is_not_read() -> None:
    heavy = b'{"id": 1, "ok": true, "r": [' + b"[]," * 5_000_000 + b"[]]}"
    with pytest.raises(frames.HeavyFrame, match="128 MiB"):
        frames.parse_frame(heavy, 1, Limits())


@pytest.mark.parametrize("text", ["{[,", '"', "\\", '\\"', 'a"[{,}]\\'])
def test_what_stands_in_strings_weighs_as_text(text: str) -> None:
    """Also where a string goes on over the pieces in which it is looked at."""
    data = json.dumps([text * 300_000, {"a": [1]}, text]).encode()
    assert estimate_weight(data, MIB) < 2 * len(data) + MIB
    assert estimate_weight(b"[" + b"{}," * 100_000 + b"{}]", MIB) > 10 * MIB


def drain(sock: socket.socket, each: float, stop: threading.Event) -> None:
    while not stop.wait(each):
        if not sock.recv(wire.PART + 1):
            return


@pytest.mark.parametrize("side", ["reads", "writes"])
def test_one_that_is_slow_at_every_part_does_not_stretch_the_time(side: str) -> None:
    """Each pause is short; all of them together would be ten times the limit."""
    ours, theirs = wire.make_socket_pair()
    stop = threading.Event()
    wire.set_timeout(ours, 0.6)
    other = threading.Thread(target=drain, args=(theirs, 0.15, stop))
    if side == "writes":
        part = b"\x00" + b"x" * wire.PART
        other = threading.Thread(target=lambda: [theirs.send(part) for _ in range(40) if not stop.wait(0.15)])
    other.start()
    with ours, theirs:
        try:
            exchange = (
                [wire.send_frame, ours, b"x" * (40 * wire.PART)]
                if side == "reads"
                else [wire.receive_frame, ours, 1 << 30]
            )
            with pytest.raises(wire.FrameError) as caught:
                exchange[0](*exchange[1:], 0.6)
            assert caught.value.reason == "time"
        finally:
            stop.set()
            other.join()


SLOW = """
import sys
os, json = sys.modules['os'], sys.modules['json']
def live(f):
    try: os.lseek(f, 0, 1)
    except OSError as e: return e.errno == 29
def serve():
    sock = next(f for f in range(3, 64) if live(f))
    os.write(sock, b'\\x01' + json.dumps({'id': 2, 'ok': True, 'r': 1, 'p': []}).encode())
    part = b'\\x00'
    while part[:1] == b'\\x00':
        for _ in range(2_000_000): pass
        part = os.read(sock, 70_000)
    os.write(sock, b'\\x01' + json.dumps({'id': 3, 'ok': True, 'r': 2, 'p': []}).encode())
"""


def test_a_program_that_reads_slowly_ends_by_time(narrow: Sandbox) -> None:
    """It took over its own socket: what it reads late counts against its answer, which comes in the end."""
    with narrow.reset(body("serve()", head=SLOW), {}) as episode:
        assert episode.call("act", {}).result == 1
        with pytest.raises(ProgramEnded) as caught:
            episode.call("act", {"text": "x" * (8 * MIB)})
    assert caught.value.reason == "time"
