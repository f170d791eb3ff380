"""As much of S3 as small files need that Spark writes and reads by S3A: no rights, no versions, no parts."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_DATE = "Sun, 22 Nov 2026 00:00:00 GMT"
_COPIED = b'<CopyObjectResult><ETag>"1"</ETag><LastModified>2026-11-22T00:00:00.000Z</LastModified></CopyObjectResult>'


class SmallS3(ThreadingHTTPServer):
    """`objects` by their paths, `/BUCKET/NAME`; `puts` are the values of `If-None-Match`, in order."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.puts: list[str | None] = []
        self.loses_answers = False
        """Whether a put is done and its connection is closed without an answer."""
        self.refuses_deletes = False
        self.refuses: tuple[HTTPStatus, str] | None = None
        """How all requests are refused: a status, and S3's code."""
        self.held = ""
        """A part of a path: the first put of such an object is `waiting` until it may `go_on`."""
        self.waiting, self.go_on = threading.Event(), threading.Event()
        self.turn = threading.Lock()


@contextmanager
def small_s3() -> Iterator[SmallS3]:
    with SmallS3() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.go_on.set()
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: SmallS3
    protocol_version = "HTTP/1.1"

    @property
    def _path(self) -> str:
        return unquote(urlsplit(self.path).path)

    def do_PUT(self) -> None:
        body = self._body()
        if self._is_refused():
            return
        self._wait()
        with self.server.turn:
            condition = self.headers.get("If-None-Match")
            self.server.puts.append(condition)
            if condition == "*" and self._path in self.server.objects:
                self._error(HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed")
                return
            source = self.headers.get("x-amz-copy-source")
            self.server.objects[self._path] = body if source is None else self.server.objects[_absolute(source)]
            if self.server.loses_answers:
                self.close_connection = True
                return
        self._answer(HTTPStatus.OK, b"" if source is None else _COPIED, tagged=True)

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        if self._is_refused():
            return
        if "list-type" in asked:
            self._answer(HTTPStatus.OK, self._listing(asked["prefix"][0], asked.get("delimiter", [""])[0]).encode())
        elif self._path not in self.server.objects:
            self._error(HTTPStatus.NOT_FOUND, "NoSuchKey")
        else:
            self._answer_part(self.server.objects[self._path])

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        if self._is_refused():
            return
        if self.server.refuses_deletes:
            self._error(HTTPStatus.FORBIDDEN, "AccessDenied")
            return
        with self.server.turn:
            self.server.objects.pop(self._path, None)
        self._answer(HTTPStatus.NO_CONTENT)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""

    def _wait(self) -> None:
        with self.server.turn:
            waits = bool(self.server.held) and self.server.held in self._path
            if waits:
                self.server.held = ""
                self.server.waiting.set()
        if waits:
            self.server.go_on.wait()

    def _is_refused(self) -> bool:
        if self.server.refuses is not None:
            self._error(*self.server.refuses)
        return self.server.refuses is not None

    def _listing(self, prefix: str, delimiter: str) -> str:
        """The objects below it; those below a further delimiter as one, like files in a folder."""
        bucket = self._path.strip("/")
        below = f"/{bucket}/{prefix}"
        with self.server.turn:
            sizes = {name: len(content) for name, content in self.server.objects.items() if name.startswith(below)}
        files, folders = list[str](), set[str]()
        for name, size in sorted(sizes.items()):
            first, found, _ = name.removeprefix(below).partition(delimiter) if delimiter else ("", "", "")
            key = escape(name.removeprefix(f"/{bucket}/"))
            if found:
                folders.add(f"<CommonPrefixes><Prefix>{escape(prefix + first)}/</Prefix></CommonPrefixes>")
            else:
                files.append(
                    f"<Contents><Key>{key}</Key><Size>{size}</Size>"
                    "<LastModified>2026-11-22T00:00:00.000Z</LastModified></Contents>"
                )
        counts = f"<KeyCount>{len(files) + len(folders)}</KeyCount><IsTruncated>false</IsTruncated>"
        found_all = "".join((*files, *sorted(folders)))
        return f"<ListBucketResult><Name>{bucket}</Name>{counts}{found_all}</ListBucketResult>"

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

    def _answer_part(self, content: bytes) -> None:
        """All of it, or the range that is asked for."""
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            self._answer(HTTPStatus.OK, content, tagged=True)
            return
        begin, end = (int(each) if each else None for each in asked.groups())
        if begin is None:
            begin, end = max(0, len(content) - (end or 0)), None
        end = len(content) if end is None else min(end + 1, len(content))
        if begin >= end:
            self._error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "InvalidRange")
            return
        found = f"bytes {begin}-{end - 1}/{len(content)}"
        self._answer(HTTPStatus.PARTIAL_CONTENT, content[begin:end], tagged=True, content_range=found)

    def _answer(self, status: HTTPStatus, body: bytes = b"", *, tagged: bool = False, content_range: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", _DATE)
        if tagged:
            self.send_header("ETag", '"1"')
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _absolute(source: str) -> str:
    return f"/{unquote(source).lstrip('/')}"
