"""As much of S3 as one object needs that is put, read and deleted by S3A: no rights, no versions, no parts."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

_DATE = "Sun, 22 Nov 2026 00:00:00 GMT"


class SmallS3(ThreadingHTTPServer):
    """`objects` by their paths, `/BUCKET/NAME`; `puts` are the values of `If-None-Match`, in order."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.puts: list[str | None] = []
        self.loses_answers = False
        """Whether a put is done and its connection is closed without an answer."""
        self.refuses_deletes = False
        self.turn = threading.Lock()


@contextmanager
def small_s3() -> Iterator[SmallS3]:
    with SmallS3() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: SmallS3
    protocol_version = "HTTP/1.1"

    @property
    def _path(self) -> str:
        return urlsplit(self.path).path

    def do_PUT(self) -> None:
        body = self._body()
        with self.server.turn:
            condition = self.headers.get("If-None-Match")
            self.server.puts.append(condition)
            if condition == "*" and self._path in self.server.objects:
                self._error(HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed")
                return
            self.server.objects[self._path] = body
            if self.server.loses_answers:
                self.close_connection = True
                return
        self._answer(HTTPStatus.OK, tagged=True)

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        if "list-type" in asked:
            self._answer(HTTPStatus.OK, self._listing(asked["prefix"][0]).encode())
        elif self._path not in self.server.objects:
            self._error(HTTPStatus.NOT_FOUND, "NoSuchKey")
        else:
            self._answer(HTTPStatus.OK, self.server.objects[self._path], tagged=True)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        if self.server.refuses_deletes:
            self._error(HTTPStatus.FORBIDDEN, "AccessDenied")
            return
        with self.server.turn:
            self.server.objects.pop(self._path, None)
        self._answer(HTTPStatus.NO_CONTENT)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""

    def _listing(self, prefix: str) -> str:
        bucket = self._path.strip("/")
        names = [name for name in self.server.objects if name.startswith(f"/{bucket}/{prefix}")]
        found = "".join(
            f"<Contents><Key>{name.removeprefix(f'/{bucket}/')}</Key><Size>1</Size>"
            "<LastModified>2026-11-22T00:00:00.000Z</LastModified></Contents>"
            for name in names
        )
        counts = f"<KeyCount>{len(names)}</KeyCount><IsTruncated>false</IsTruncated>"
        return f"<ListBucketResult><Name>{bucket}</Name>{counts}{found}</ListBucketResult>"

    def _body(self) -> bytes:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return sent
        body = b""
        while size := int(sent.partition(b"\r\n")[0].partition(b";")[0], 16):
            rest = sent.partition(b"\r\n")[2]
            body += rest[:size]
            sent = rest[size + 2 :]
        return body

    def _error(self, status: HTTPStatus, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def _answer(self, status: HTTPStatus, body: bytes = b"", *, tagged: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", _DATE)
        if tagged:
            self.send_header("ETag", '"1"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
