"""What an upstream says is never shown where anybody may look, and the log has it masked and cut."""

import logging
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from app.core.kafka.errors import StoreUnavailableException
from app.formats.feed_events import End, encode
from app.upstream.connection import Connection, RefusedError, cut, passed_on
from tests.fake_upstream import Told, connected, replica, stream
from tests.klamm import until
from tests.planted import plant
from tests.scripted_server import Answer, ScriptedServer, Step, problem

SAYS = "upstream-says"
LONG = f"{SAYS} " * 40_000


def raw(answer: bytes) -> Step:
    def send(request: BaseHTTPRequestHandler) -> None:
        request.close_connection = True
        request.wfile.write(answer)

    return send


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (problem(503, "STORE_UNAVAILABLE", LONG[:200_000]), "refused: STORE_UNAVAILABLE"),
        (problem(403, "CLUSTER_AUTHORIZATION_FAILED", SAYS), "refused: CLUSTER_AUTHORIZATION_FAILED"),
        (problem(503, SAYS, SAYS), "answers with status 503, but not as Klamm does"),
        (problem(503, "A" * 1_000, SAYS), "answers with status 503, but not as Klamm does"),
        (problem(503, "NOT_LOADED", SAYS, chain=[SAYS * 40]), "names followers by what is no id"),
        (Answer(502, SAYS.encode()), "answers with status 502, but not as Klamm does"),
        (Answer(200, SAYS.encode(), media_type="text/html"), "answers with status 200, but not as Klamm does"),
        (stream([SAYS.encode()]), "is damaged; the log says how"),
        (stream([b'{"type":"end","token":null,"reason":"upstream-says"}']), "is damaged; the log says how"),
        (stream([encode(End(None, "slow"))]), "ended the stream (`slow`)"),
        (raw(f"{SAYS} {SAYS} {SAYS}\r\n\r\n".encode()), "what it sent is not HTTP"),
        (raw(f"HTTP/1.1 200 OK\r\n{SAYS}\r\n\r\n".encode()), "what it sent is not HTTP"),
        (stream([*Told().snapshot(), Told().bookmark([SAYS * 40])]), "names followers by what is no id"),
        (
            stream([*Told().snapshot(), Told().transaction(2).replace(b"AccessControlEntryRecord", SAYS.encode())]),
            "has what a later version has written; the log says what",
        ),
    ],
)
async def test_readiness_says_no_word_of_an_upstreams(
    answer: Step, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    texts: set[str] = set()

    def is_said() -> bool:
        text = str(authorizer.readiness.checks())
        texts.add(text)
        return "trouble: none" not in text and any(shown in getattr(each, "why", "") for each in caplog.records)

    with ScriptedServer(answer) as server:
        async with replica(server.url) as authorizer:
            await until(is_said)
    for text in texts:
        assert SAYS not in text
        assert len(text) < 2_000


async def test_the_log_has_the_detail_cut_and_without_the_followers_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = plant("opaque.planted-token-of-a-follower")
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text(token)
    detail = f"you sent Bearer {token}, {LONG}"
    with ScriptedServer(problem(503, "STORE_UNAVAILABLE", detail[:100_000])) as server:
        async with connected([server.url], file) as (connection, feed):
            with pytest.raises(StoreUnavailableException) as refused:
                async with feed.snapshot():
                    pass
            why = connection.why
    (line,) = [each for each in caplog.records if each.msg == "upstream_lost"]
    logged = vars(line)["detail"]
    assert logged.startswith("you sent Bearer ***, upstream-says")
    assert len(logged) <= 203
    assert line.levelno == logging.WARNING
    for text in (refused.value.message, why, logged):
        assert token not in text
    assert SAYS not in refused.value.message + why


async def test_a_refusal_that_is_passed_on_is_cut_and_without_the_followers_token(tmp_path: Path) -> None:
    token = plant("opaque.planted-token-of-a-follower")
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text(token)
    with ScriptedServer(problem(403, "CLUSTER_AUTHORIZATION_FAILED", f"Bearer {token} {LONG}"[:100_000])) as server:
        async with connected([server.url], file) as (connection, _):
            refusal = passed_on(server.url, await _refused(connection, server.url))
    assert refusal.message.startswith("Bearer *** upstream-says")
    assert len(refusal.message) < 5_000


async def _refused(connection: Connection, url: str) -> RefusedError:
    with pytest.raises(RefusedError) as refused:
        await connection.answer(f"{url}/v1/acls", b"{}", 30.0)
    return refused.value


def test_a_text_is_cut_between_two_words(subtests: pytest.Subtests) -> None:
    for text, shown in [
        ("short", "short"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "..."),
        ("word " * 50, "word " * 39 + "word..."),
        ("a klamm_" + "s" * 300, "a..."),
    ]:
        with subtests.test(text=text, shown=shown):
            assert cut(text) == shown
