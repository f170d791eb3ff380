"""The console behind an OIDC proxy that sends each person's token: in a real browser, and byte by byte."""

from pathlib import Path

from tests.callers import Corp, write_configuration
from tests.klamm import Process
from tests.proof.e2e.test_console_in_a_browser import BOB, click, signing_in, words
from tests.raw import exchange, statuses

ALICE = """
[callers.alice]
role = "admin"
principal = "User:admin"
issuer = "corp"
subject = "alice"
"""


def test_a_proxys_token_signs_in_and_each_request_stands_for_itself(tmp_path: Path) -> None:
    corp = Corp()
    write_configuration(tmp_path, corp)
    with (tmp_path / "klamm.toml").open("a", encoding="utf-8") as file:
        file.write(ALICE)
    token = corp.token(sub="alice")
    with signing_in(tmp_path) as (guarded, page):
        page.call("Network.enable")
        page.call("Network.setExtraHTTPHeaders", headers={"Authorization": f"Bearer {token}"})
        page.go(guarded.url + BOB)
        assert "Denied" in words(page)
        click(page, "Allow for 8 hours")
        click(page, "Create 1 ACL")
        assert "Allowed" in words(page)
        page.call("Network.setExtraHTTPHeaders", headers={"Authorization": f"Bearer {corp.token(sub='mallory')}"})
        page.go(guarded.url + BOB)
        assert "Sign in" in words(page)
        check_each_request(guarded, corp, token)


def check_each_request(guarded: Process, corp: Corp, token: str) -> None:
    """One connection, as a proxy keeps it: a token is of its own request alone, and in one spelling."""

    def request(*headers: str) -> bytes:
        return "\r\n".join(("GET /console/acls HTTP/1.1", "host: localhost", *headers, "", "")).encode()

    def answered(*requests: bytes) -> list[int]:
        reply = exchange(guarded, b"".join((*requests, request("connection: close"))), then_close=False)
        return statuses(reply)

    good = f"Authorization: Bearer {token}"
    stranger = "authorization: bearer " + corp.token(sub="mallory")
    assert answered(request(good), request(), request("X-Forwarded-User: alice"), request(good)) == [
        200,
        303,
        303,
        200,
        303,
    ]
    assert answered(request(good), request(stranger)) == [200, 303, 303]
    assert answered(request(good, good))[0] == 400
    assert answered(request(good, stranger))[0] == 400
    for odd in (
        f"Authorization : Bearer {token}",
        f" {good}",
        f"X-A: b\r\n {good}",
        f"X-A: b\n{good}",
        f"X-A: b\r{good}",
    ):
        assert 200 not in answered(request(odd)), odd
    assert 200 not in answered(request("Content-Length: 5", "Transfer-Encoding: chunked"), request(good))
