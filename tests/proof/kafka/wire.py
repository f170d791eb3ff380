"""Kafka's protocol, as far as it takes to ask one broker whether a user may see a topic."""

import socket
import struct
from types import TracebackType
from typing import Self

from tests.proof.kafka.broker import password_of

ALLOWED, REFUSED = 3, 29
"""Kafka's error codes UNKNOWN_TOPIC_OR_PARTITION and TOPIC_AUTHORIZATION_FAILED: no such topic need be there."""

_METADATA, _HANDSHAKE, _AUTHENTICATE = 3, 17, 36
_PATIENCE_S = 60.0


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


class Wire:
    """A connection of one user to one broker, by SASL PLAIN."""

    def __init__(self, address: str, user: str, patience_s: float = _PATIENCE_S) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), patience_s)
        try:
            self._ask(_HANDSHAKE, _text("PLAIN"), version=1)
            proof = f"\0{user}\0{password_of(user)}".encode()
            answer = self._ask(_AUTHENTICATE, struct.pack(">i", len(proof)) + proof, version=0)
            assert struct.unpack_from(">h", answer) == (0,), answer
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def describe(self, *topics: str) -> dict[str, int]:
        """The error code of each topic: ALLOWED or REFUSED."""
        answer = self._ask(_METADATA, struct.pack(">i", len(topics)) + b"".join(map(_text, topics)), version=1)
        return _errors(answer)

    def _ask(self, key: int, body: bytes, version: int) -> bytes:
        request = struct.pack(">hhi", key, version, 1) + _text("wire") + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)[4:]

    def _read(self, size: int) -> bytes:
        read = b""
        while len(read) < size:
            more = self._socket.recv(size - len(read))
            assert more, "the broker has hung up"
            read += more
        return read


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f">{form}", self._body, self._at)
        self._at += struct.calcsize(f">{form}")
        return int(value)

    def text(self) -> str:
        size = self.number("h")
        if size < 0:
            return ""
        self._at += size
        return self._body[self._at - size : self._at].decode()


def _errors(answer: bytes) -> dict[str, int]:
    """Of an answer to Metadata, version 1."""
    reader = _Reader(answer)
    for _ in range(reader.number("i")):
        reader.number("i"), reader.text(), reader.number("i"), reader.text()
    reader.number("i")
    errors: dict[str, int] = {}
    for _ in range(reader.number("i")):
        error, name, _ = reader.number("h"), reader.text(), reader.number("b")
        errors[name] = error
        for _ in range(reader.number("i")):
            reader.number("h"), reader.number("i"), reader.number("i")
            for _ in range(2):
                for _ in range(reader.number("i")):
                    reader.number("i")
    return errors
