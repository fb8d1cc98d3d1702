"""Frames: one datagram each, or several if they are large. Never pickle; the payload is JSON.

A datagram begins with one byte: 1 for the last (mostly only) part of a frame, 0 if more follow. If the system has no
sequenced packets (macOS), a stream carries the same parts behind a four-byte length.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

PART = 60_000
_LAST, _MORE = b"\x01", b"\x00"
STREAM = sys.platform == "darwin"
SOCKET_TYPE = socket.SOCK_STREAM if STREAM else socket.SOCK_SEQPACKET


class FrameError(Exception):
    """A broken protocol or a lost peer. `reason`: `closed`, `time` or `protocol`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason
        self.detail = detail


def make_socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return a connected pair of sockets for frames."""
    return socket.socketpair(socket.AF_UNIX, SOCKET_TYPE)


def set_timeout(sock: socket.socket, seconds: float) -> None:
    """Bound each read and write in the kernel; Python's own time-outs cost a system call more."""
    whole = int(seconds)
    value = struct.pack("ll", whole, int((seconds - whole) * 1_000_000) or (0 if whole else 1))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)


def send_frame(sock: socket.socket, payload: bytes, seconds: float | None = None) -> None:
    """Send one frame; with `seconds`, give up on a slow reader after that time.

    The first silence is bounded by the socket's own time-out, which is shorter afterwards. Raise FrameError `closed` or
    `time`.
    """
    size = len(payload)
    deadline = None if seconds is None else time.monotonic() + seconds
    try:
        if size < PART:
            if STREAM:
                _send_part(sock, _LAST + payload)
            else:
                sock.send(_LAST + payload)
            return
        view = memoryview(payload)
        for start in range(0, size, PART):
            mark = _LAST if start + PART >= size else _MORE
            if start:
                _shorten_timeout(sock, deadline)
            _send_part(sock, mark + bytes(view[start : start + PART]))
    except (BlockingIOError, TimeoutError):
        raise FrameError("time") from None
    except OSError as error:
        raise FrameError("closed", str(error)) from None


def receive_frame(sock: socket.socket, cap: int, seconds: float | None = None) -> bytes:
    """Receive one frame of at most `cap` bytes; with `seconds`, give up on a trickle after that time.

    The first silence is bounded by the socket's own time-out, which is shorter afterwards if there were several parts.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    try:
        part = _receive_part(sock) if STREAM else sock.recv(PART + 1)
        if part[:1] == _LAST:
            return part[1:]
        return _receive_rest(sock, part, cap, deadline)
    except (BlockingIOError, TimeoutError):
        raise FrameError("time") from None
    except OSError as error:
        raise FrameError("closed", str(error)) from None


def has_whole_frame(sock: socket.socket) -> bool:
    """Return whether the next frame to receive is of one datagram, which can be read without waiting."""
    try:
        return not STREAM and sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == _LAST
    except OSError:
        return False


def _shorten_timeout(sock: socket.socket, deadline: float | None) -> None:
    """Set the remaining time as the socket's time-out. Raise FrameError `time`."""
    if deadline is None:
        return
    left = deadline - time.monotonic()
    if left <= 0:
        raise FrameError("time")
    set_timeout(sock, left)


def _receive_rest(sock: socket.socket, part: bytes, cap: int, deadline: float | None) -> bytes:
    frame = bytearray()
    while True:
        if not part:
            raise FrameError("closed")
        if part[:1] not in (_LAST, _MORE):
            raise FrameError("protocol", "a part of a frame has no mark")
        frame += memoryview(part)[1:]
        if len(frame) > cap:
            raise FrameError("protocol", f"a frame is larger than {cap} bytes")
        if part[:1] == _LAST:
            return bytes(frame)
        _shorten_timeout(sock, deadline)
        part = _receive_part(sock)


def _send_part(sock: socket.socket, part: bytes) -> None:
    if STREAM:
        sock.sendall(len(part).to_bytes(4, "big") + part)
    else:
        sock.send(part)


def _receive_part(sock: socket.socket) -> bytes:
    if not STREAM:
        return sock.recv(PART + 1)
    size = int.from_bytes(_receive_exactly(sock, 4), "big")
    if size > PART + 1:
        raise FrameError("protocol", "a part of a frame is too large")
    return _receive_exactly(sock, size)


def _receive_exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            return b""
        data += piece
    return data
