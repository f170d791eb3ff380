"""Where no callers are configured, whoever is on the machine may ask, but no other site's page in a browser there."""

import re
from pathlib import Path

import pytest

import app
from app.core.kafka.errors import ClusterAuthorizationException
from app.metrics.declared import Metrics
from app.rest.callers.authentication import Callers
from app.rest.callers.roles import FULL, Caller, Role

HERE = (b"host", b"localhost:8080")
LOCAL = (
    *("localhost", "localhost:8080", "LocalHost", "LOCALHOST:1", "localhost:", "klamm.localhost", "a.b.LOCALHOST:7"),
    *("127.0.0.1", "127.0.0.1:8080", "127.8.8.8", "10.1.2.3:80", "0.0.0.0:8080", "255.255.255.255"),
    *(
        "[::1]",
        "[::1]:8080",
        "[::]",
        "[2001:DB8::1]:80",
        "[::ffff:127.0.0.1]",
        "[fe80::1%25eth0]:8080",
        "[fe80::1%eth0]",
    ),
)
FOREIGN = (
    *("evil.example", "evil.example:8080", "klamm", "klamm:8080", "host.docker.internal"),
    *("localhost.evil.example", "127.0.0.1.evil.example", "evil-localhost", "xlocalhost", "localhost.", "127.0.0.1."),
    *("2130706433", "0x7f.1", "0x7f000001", "127.1", "0177.0.0.1", "127.0.0.01", "127.0.0.256", "1.2.3.4.5", "127"),
    *("", ":8080", " localhost", "localhost ", "localhost,evil.example", "localhost evil.example", "localhost/x"),
    *(
        "localhost:8080:8080",
        "localhost:x",
        "localhost:-1",
        "localhost:80@evil.example",
        "user@localhost",
        "@localhost",
    ),
    *("::1", "::1:8080", "[::1", "::1]", "[]", "[localhost]", "[127.0.0.1]", "[v1.x]", "[::1]x", "x[::1]", "[[::1]]"),
    *("localhost\n", "localhost\0", "lo\u017fcalhost", "localhos\u2060t", "\u0661\u0662\u0667.0.0.1", "127.0.0.1/8"),
)


def callers(*, on_unix_socket: bool = False) -> Callers:
    return Callers(None, Metrics(), on_unix_socket=on_unix_socket)


async def identify(*headers: tuple[bytes, bytes], on_unix_socket: bool = False) -> Caller:
    """By the checked path; the quick one must not be kinder."""
    them = callers(on_unix_socket=on_unix_socket)
    quick = them.known(dict(headers), ())
    caller = await them.admitted("createAcls", FULL, headers, ())
    assert quick in (None, caller)
    assert them.identified_without_token(headers, ()) is caller
    return caller


async def refusal(*headers: tuple[bytes, bytes]) -> str:
    """Why neither of the ways lets this in."""
    assert callers().known(dict(headers), ()) is None
    with pytest.raises(ClusterAuthorizationException) as refused:
        await callers().admitted("createAcls", FULL, headers, ())
    with pytest.raises(ClusterAuthorizationException, match="callers"):
        callers().identified_without_token(headers, ())
    return refused.value.message


def host(text: str) -> tuple[bytes, bytes]:
    return b"host", text.encode()


async def test_a_host_of_this_machine_or_an_address_is_let_in(subtests: pytest.Subtests) -> None:
    for text in LOCAL:
        with subtests.test(text=text):
            assert (await identify(host(text))).role is Role.OPEN
            assert callers().known(dict([host(text)]), ()) is not None


async def test_another_host_name_is_refused(subtests: pytest.Subtests) -> None:
    for text in FOREIGN:
        with subtests.test(text=text):
            told = await refusal(host(text))
            assert "`Host`" in told
            assert "configure callers" in told
            assert (await identify(host(text), on_unix_socket=True)).role is Role.OPEN


async def test_a_host_that_is_missing_or_repeated_is_refused() -> None:
    assert "missing or repeated" in await refusal()
    with pytest.raises(ClusterAuthorizationException, match="missing or repeated"):
        await callers().admitted("authorize", FULL, [host("a"), host("localhost"), (b"origin", b"x")], ())
    assert (await identify(on_unix_socket=True)).role is Role.OPEN


async def test_what_another_site_leads_here_is_refused(subtests: pytest.Subtests) -> None:
    for sites in [("cross-site",), ("same-site",), ("",), ("None",), ("same-origin, none",), ("none", "cross-site")]:
        with subtests.test(sites=sites):
            for some in (sites, sites[::-1]):
                told = await refusal(HERE, *((b"sec-fetch-site", each.encode()) for each in some))
                assert "`Sec-Fetch-Site`" in told
                assert "configure callers" in told


async def test_the_address_bar_and_pages_of_the_service_are_let_in(subtests: pytest.Subtests) -> None:
    for site in ["none", "same-origin"]:
        with subtests.test(site=site):
            await identify(HERE, (b"sec-fetch-site", site.encode()))
            await identify(HERE, (b"sec-fetch-site", site.encode()), (b"origin", b"http://localhost:8080"))


async def test_a_page_of_another_origin_is_refused(subtests: pytest.Subtests) -> None:
    for origin in [
        "http://evil.example",
        "http://localhost:3000",
        "http://localhost",
        "null",
        "",
        "localhost:8080",
        "://",
    ]:
        with subtests.test(origin=origin):
            told = await refusal(HERE, (b"origin", origin.encode()))
            assert "`Origin`" in told
            assert "configure callers" in told
            await refusal(HERE, (b"origin", b"http://localhost:8080"), (b"origin", origin.encode()))
            with pytest.raises(ClusterAuthorizationException, match="Origin"):
                await identify((b"host", b""), (b"origin", origin.encode()), on_unix_socket=True)


async def test_credentials_are_not_looked_at() -> None:
    repeated = [HERE, (b"authorization", b"a"), (b"authorization", b"b")]
    assert (await callers().admitted("createAcls", FULL, repeated, ())).role is Role.OPEN


async def test_a_name_of_any_length_is_refused_shortly() -> None:
    assert len(await refusal(host("evil." * 10_000))) < 500


def test_nothing_else_makes_a_caller_without_credentials() -> None:
    sources = Path(app.__file__).parent.rglob("*.py")
    made = [each.name for each in sources if re.search(r"Caller\([^)]*Role\.OPEN", each.read_text())]
    assert made == ["open_access.py"]
