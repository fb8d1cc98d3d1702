"""One HTTP/1.1 reply as its bytes arrive: head, then a body by its length, in chunks, or up to the connection's end."""

from __future__ import annotations

HEAD_BYTES = 64 * 1024
REPLY_BYTES = 64 * 1024 * 1024
_WITHOUT_BODY = (204, 304)


class NoReply(ValueError):
    """What arrived is no reply that could be read."""


class Reply:
    """The reply to one request. `whole` says when nothing more belongs to it, `kept` whether its connection can carry
    another request."""

    def __init__(self) -> None:
        self.status = 0
        self.begun = self.whole = self.kept = False
        self._held = bytearray()
        self._body = bytearray()
        self._left: int | None = None
        """Bytes of the body, or of the chunk, that are still to come; None: up to the connection's end."""
        self._chunked = self._trailing = False

    @property
    def body(self) -> bytes:
        return bytes(self._body)

    def take(self, data: bytes) -> None:
        """More of it. Raises NoReply."""
        self.begun = True
        self._held += data
        while not self.status:
            head, found, rest = self._held.partition(b"\r\n\r\n")
            if len(head) > HEAD_BYTES:
                raise NoReply(f"its head has more than {HEAD_BYTES >> 10} KiB")
            if not found:
                return
            self._held = rest
            self._read_head(bytes(head))
        if self._chunked:
            self._take_chunks()
        else:
            self._take_plain()
            if self._left == 0:
                self._end()

    def ended(self) -> None:
        """Its connection has ended: a body without a length is whole by that."""
        if self.status and self._left is None and not self._chunked:
            self.whole = True

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        version, _, rest = first.partition(b" ")
        code = rest[:3]
        if version not in (b"HTTP/1.1", b"HTTP/1.0") or len(code) != 3 or not code.isdigit() or rest[3:4] not in b" ":
            raise NoReply(f"it begins with {first[:80]!r}")
        if code[:1] == b"1":
            return
        self.status = int(code)
        fields: dict[bytes, bytes] = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon:
                raise NoReply(f"a line of its head is {line[:80]!r}")
            fields[name.lower()] = value.strip().lower()
        self.kept = version == b"HTTP/1.1" and fields.get(b"connection") != b"close"
        coding, length = fields.get(b"transfer-encoding", b""), fields.get(b"content-length")
        if coding not in (b"", b"chunked", b"identity"):
            raise NoReply(f"its transfer encoding is {coding[:80]!r}")
        self._chunked = coding == b"chunked"
        if self._chunked or self.status in _WITHOUT_BODY:
            self._left = 0
        elif length is not None:
            if not length.isdigit():
                raise NoReply(f"its length is {length[:80]!r}")
            self._left = int(length)

    def _take_plain(self) -> None:
        part = self._held if self._left is None else self._held[: self._left]
        self._body += part
        del self._held[: len(part)]
        if self._left is not None:
            self._left -= len(part)
        if len(self._body) + (self._left or 0) > REPLY_BYTES:
            raise NoReply(f"it has more than {REPLY_BYTES >> 20} MiB")

    def _take_chunks(self) -> None:
        while True:
            if self._left:
                self._take_plain()
                if self._left:
                    return
                self._trailing = True
            line, found, rest = self._held.partition(b"\r\n")
            if len(line) > HEAD_BYTES:
                raise NoReply("a line between its chunks has no end")
            if not found:
                return
            self._held = rest
            if self._trailing:
                # The line's end behind a chunk.
                self._trailing = False
                if line:
                    raise NoReply("a chunk is longer than it was said to be")
            elif self._left is None:
                # Fields behind the last chunk, and the empty line behind them.
                if not line:
                    self._end()
                    return
            else:
                self._left = _size(bytes(line)) or None

    def _end(self) -> None:
        self.whole = True
        self.kept = self.kept and not self._held


def _size(line: bytes) -> int:
    """Raises NoReply: it is no size of a chunk."""
    digits = line.partition(b";")[0].strip()
    if not digits or digits.strip(b"0123456789abcdefABCDEF"):
        raise NoReply(f"a chunk's size is {line[:80]!r}")
    return int(digits, 16)
