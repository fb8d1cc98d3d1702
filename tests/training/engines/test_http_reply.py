"""Replies of a server in all forms that HTTP/1.1 has, however their bytes arrive."""

from __future__ import annotations

import pytest

from training.engines.http_reply import REPLY_BYTES, NoReply, Reply

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
DIGITS = b"0123456789"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def read(data: bytes, size: int) -> Reply:
    reply = Reply()
    for start in range(0, len(data), size):
        assert not reply.whole
        reply.take(data[start : start + size])
    return reply


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
@pytest.mark.parametrize(
    ("data", "status", "body", "kept"),
    [
        (HEAD + b"Content-Length: 5\r\n\r\nabcde", 200, b"abcde", True),
        (HEAD + b"Content-Length: 0\r\n\r\n", 200, b"", True),
        (HEAD + b"content-length: 2\r\nConnection: Close\r\n\r\nok", 200, b"ok", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", 200, b"ok", False),
        (b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy", 503, b"busy", True),
        (b"HTTP/1.1 429\r\ncontent-length: 1\r\n\r\nx", 429, b"x", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"content-length: 1\r\n\r\nx", 200, b"x", True),
        (CHUNKED + b"3\r\nabc\r\nA;x\r\n" + DIGITS + b"\r\n0\r\n\r\n", 200, b"abc" + DIGITS, True),
        (CHUNKED + b"4\r\na\r\nb\r\n0\r\nx-sum: 1\r\n\r\n", 200, b"a\r\nb", True),
    ],
)  # fmt: skip
def test_a_reply_is_whole_at_its_last_byte(data: bytes, status: int, body: bytes, kept: bool, size: int) -> None:
    reply = read(data, size)
    assert (reply.whole, reply.status, reply.body, reply.kept) == (True, status, body, kept)


def test_a_body_without_a_length_ends_with_its_connection() -> None:
    reply = read(HEAD + b"\r\nabc", 4)
    assert not reply.whole
    reply.ended()
    assert (reply.whole, reply.body) == (True, b"abc")
    for cut in (b"", HEAD, HEAD + b"content-length: 5\r\n\r\nabc", HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n"):
        reply = read(cut, 100)
        reply.ended()
        assert not reply.whole


def test_a_connection_with_more_behind_a_reply_is_not_kept() -> None:
    assert not read(HEAD + b"content-length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n\r\n", 10_000).kept


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 twohundred\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        HEAD + b"no colon\r\n\r\n",
        HEAD + b"content-length: -1\r\n\r\n",
        HEAD + b"content-length: %d\r\n\r\n" % (REPLY_BYTES + 1),
        HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n-3\r\nabc\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\nab\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n%x\r\n" % (REPLY_BYTES + 1),
        b"a" * 100_000,
    ],
)
def test_what_is_no_reply_is_refused(data: bytes) -> None:
    with pytest.raises(NoReply):
        read(data, 10_000)
