"""TLS of the server, and who clients prove to be, over real sockets."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import uvloop

from app.formats.command_errors import UsageError
from app.rest.callers.certificates import CertificateWatch, names_of, server_context
from tests.certificates import Authority, Certified
from tests.klamm import until

PATIENCE_S = 10.0
SPIFFE = "URI:spiffe://cluster.example/ns/orders/sa/api"
NOBODY = "()"


@pytest.fixture(params=[asyncio.SelectorEventLoop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop_factory(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    factory: Callable[[], asyncio.AbstractEventLoop] = request.param
    return factory


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
def strangers(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "theirs")


@pytest.fixture
def mine(authority: Authority) -> Certified:
    return authority.certify("server")


class _Telling(asyncio.Protocol):
    """Tells whoever connects which names it has."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvloop's are of no class
        transport.write(str(names_of(transport)).encode())
        transport.close()


@asynccontextmanager
async def serving(context: ssl.SSLContext | None) -> AsyncIterator[int]:
    server = await asyncio.get_running_loop().create_server(_Telling, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()


def client(trusted: Authority | None, shown: Certified | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=None if trusted is None else trusted.file)
    if shown is not None:
        context.load_cert_chain(shown.certificate, shown.key)
    return context


@contextmanager
def connected(port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost", session=session) as sock,
    ):
        yield sock


def ask(port: int, context: ssl.SSLContext) -> str:
    """What the server tells; "refused" if it doesn't."""
    try:
        with connected(port, context) as sock:
            # A server of TLS 1.3 refuses a client's certificate when the client has begun already: then it hangs up.
            return sock.recv(65_536).decode() or "refused"
    except (ssl.SSLError, ConnectionError):
        return "refused"


def answers(
    factory: Callable[[], asyncio.AbstractEventLoop], served: ssl.SSLContext | None, *clients: ssl.SSLContext
) -> list[str]:
    """What each of these clients gets of a server of its own loop."""

    async def run() -> list[str]:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        async with serving(served) as port:
            return [await asyncio.to_thread(ask, port, each) for each in clients]

    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(run())


Factory = Callable[[], asyncio.AbstractEventLoop]


# whose certificate


def test_names_are_those_of_a_verified_certificate(
    loop_factory: Factory, authority: Authority, mine: Certified
) -> None:
    shown = authority.certify("client", [SPIFFE, "DNS:api.orders.example", "IP:10.0.0.1"], common_name="admin")
    context = server_context(mine.certificate, mine.key, authority.file)
    expected = str((SPIFFE, "DNS:api.orders.example"))
    assert answers(loop_factory, context, client(authority, shown), client(authority)) == [expected, NOBODY]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_certificates_that_prove_nothing_are_refused_in_the_handshake(
    loop_factory: Factory, authority: Authority, strangers: Authority, mine: Certified, version: ssl.TLSVersion
) -> None:
    good = authority.certify("good", [SPIFFE])
    other = strangers.certify("other", [SPIFFE])
    expired = authority.certify("expired", [SPIFFE], valid_for=timedelta(seconds=-5))
    future = authority.certify("future", [SPIFFE], valid_for=timedelta(days=365 * 11))
    clients = [client(authority, each) for each in (good, other, expired, future)]
    for each in clients:
        each.minimum_version = each.maximum_version = version
    context = server_context(mine.certificate, mine.key, authority.file)
    assert answers(loop_factory, context, *clients) == [str((SPIFFE,)), "refused", "refused", "refused"]


def test_a_server_without_authorities_for_clients_knows_no_names(
    loop_factory: Factory, authority: Authority, mine: Certified
) -> None:
    shown = authority.certify("client", [SPIFFE])
    assert answers(loop_factory, server_context(mine.certificate, mine.key), client(authority, shown)) == [NOBODY]


def test_a_certificate_that_was_not_verified_has_no_names(
    loop_factory: Factory, authority: Authority, mine: Certified
) -> None:
    # Not how Klamm configures it: the certificate comes, and the handshake is done, but nobody has looked at the chain.
    context = server_context(mine.certificate, mine.key, authority.file)
    context.verify_mode = ssl.CERT_NONE
    shown = authority.certify("client", [SPIFFE])
    assert answers(loop_factory, context, client(authority, shown)) == [NOBODY]


def test_the_common_name_and_addresses_are_no_names(
    loop_factory: Factory, authority: Authority, mine: Certified
) -> None:
    bare = authority.certify("bare", [], common_name="DNS:admin.example")
    address = authority.certify("address", ["IP:127.0.0.1"])
    context = server_context(mine.certificate, mine.key, authority.file)
    assert answers(loop_factory, context, client(authority, bare), client(authority, address)) == [NOBODY, NOBODY]


def test_names_with_odd_characters_stay_one_name(loop_factory: Factory, authority: Authority, mine: Certified) -> None:
    odd = authority.certify("odd", ["URI:spiffe://a/b, DNS:admin.example", "DNS:a.example\x00.evil.example"])
    context = server_context(mine.certificate, mine.key, authority.file)
    (told,) = answers(loop_factory, context, client(authority, odd))
    assert told == str(("URI:spiffe://a/b, DNS:admin.example", "DNS:a.example\x00.evil.example"))


class _Transport(asyncio.BaseTransport):
    def __init__(self, certificate: object) -> None:
        super().__init__({"peercert": certificate})


@pytest.mark.parametrize("certificate", [None, {}])
def test_without_tls_or_certificate_there_are_no_names(certificate: object) -> None:
    assert names_of(_Transport(certificate)) == ()


def test_a_certificate_that_has_expired_since_the_handshake_of_its_session_has_no_names() -> None:
    names = (("URI", "spiffe://a/b"),)
    assert names_of(_Transport({"notAfter": "Jan  1 00:00:00 2020 GMT", "subjectAltName": names})) == ()
    assert names_of(_Transport({"notAfter": "Jan  1 00:00:00 2090 GMT", "subjectAltName": names})) == (
        "URI:spiffe://a/b",
    )


# the protocol


def test_plain_http_has_no_names(loop_factory: Factory) -> None:
    async def run() -> bytes:
        async with serving(None) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            told = await reader.read()
            writer.close()
            return told

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(run()) == b"()"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_older_than_tls_1_2_is_refused(loop_factory: Factory, authority: Authority, mine: Certified) -> None:
    old = client(authority)
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    context = server_context(mine.certificate, mine.key)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert answers(loop_factory, context, old, client(authority)) == ["refused", NOBODY]


async def test_http_2_is_not_agreed_on(authority: Authority, mine: Certified) -> None:
    context = client(authority)
    context.set_alpn_protocols(["h2", "http/1.1"])

    def agreed(port: int) -> str | None:
        with connected(port, context) as sock:
            return sock.selected_alpn_protocol()

    async with serving(server_context(mine.certificate, mine.key)) as port:
        assert await asyncio.to_thread(agreed, port) == "http/1.1"


def resume(port: int, context: ssl.SSLContext) -> tuple[bool, bool]:
    """Whether a session was offered in a ticket, and whether a second connection could take it up."""
    with connected(port, context) as sock:
        sock.recv(65_536)
        session = sock.session
    with connected(port, context, session) as sock:
        return bool(session and session.has_ticket), bool(sock.session_reused)


async def test_no_tickets_are_given(authority: Authority, mine: Certified) -> None:
    context = client(authority, authority.certify("client", [SPIFFE]))
    async with serving(server_context(mine.certificate, mine.key, authority.file)) as port:
        assert await asyncio.to_thread(resume, port, context) == (False, False)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        # TLS 1.2 has sessions without tickets; they hold what was proved.
        assert await asyncio.to_thread(resume, port, context) == (False, True)


# files that can't be used


def test_files_that_can_not_be_read_are_named(authority: Authority, mine: Certified, tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    for setting, paths in {
        "tls.certificate": (missing, mine.key, authority.file),
        "tls.key": (mine.certificate, missing, authority.file),
        "tls.client.ca": (mine.certificate, mine.key, missing),
    }.items():
        with pytest.raises(UsageError, match="give a file that this user can read") as fault:
            server_context(*paths)
        assert str(fault.value).startswith(f"{setting}: `{missing}` can't be read (No such file or directory)")


def test_a_key_of_another_certificate_is_named(authority: Authority, mine: Certified) -> None:
    other = authority.certify("other")
    with pytest.raises(UsageError, match="give a matching pair") as fault:
        server_context(mine.certificate, other.key)
    assert f"`{other.key}` is not the key of the certificate `{mine.certificate}`" in str(fault.value)


def test_what_is_no_certificate_or_no_key_is_named(authority: Authority, mine: Certified, tmp_path: Path) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_text("garbage")
    for certificate, key in ((garbage, mine.key), (mine.certificate, garbage), (mine.key, mine.certificate)):
        with pytest.raises(UsageError, match="both in PEM form and not encrypted") as fault:
            server_context(certificate, key)
        assert str(certificate) in str(fault.value)
        assert str(key) in str(fault.value)
    with pytest.raises(UsageError, match="contains no certificates") as fault:
        server_context(mine.certificate, mine.key, garbage)
    assert str(fault.value).startswith(f"tls.client.ca: `{garbage}`")
    assert authority.file.exists()


def test_an_encrypted_key_is_refused_and_not_asked_for_at_the_terminal(authority: Authority) -> None:
    secret = authority.certify("secret", password=b"planted")
    with pytest.raises(UsageError, match="not encrypted"):
        server_context(secret.certificate, secret.key)


# files that change


def serial_of(port: int, context: ssl.SSLContext) -> object:
    with connected(port, context) as sock:
        certificate = sock.getpeercert()
        assert certificate is not None
        return certificate["serialNumber"]


async def test_a_new_certificate_is_served_to_those_that_come_after(authority: Authority, mine: Certified) -> None:
    watch = CertificateWatch(mine.certificate, mine.key)
    async with serving(watch.context) as port:
        before = await asyncio.to_thread(serial_of, port, client(authority))
        watch.look()
        assert await asyncio.to_thread(serial_of, port, client(authority)) == before
        authority.certify("server")
        watch.look()
        assert await asyncio.to_thread(serial_of, port, client(authority)) != before


async def test_broken_new_files_leave_the_old_ones_in_use_and_the_log_says_so(
    authority: Authority, mine: Certified, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    watch = CertificateWatch(mine.certificate, mine.key, authority.file)
    old_key = mine.key.read_bytes()
    async with serving(watch.context) as port:
        before = await asyncio.to_thread(serial_of, port, client(authority))
        authority.certify("server")
        new_key = mine.key.read_bytes()
        for content in (old_key, b"", b"garbage"):
            mine.key.write_bytes(content)
            watch.look()
            watch.look()
            assert await asyncio.to_thread(serial_of, port, client(authority)) == before
        assert [line.message for line in caplog.records] == ["certificate_not_reloaded"] * 3
        assert str(mine.key) in vars(caplog.records[0])["why"]
        mine.key.unlink()
        watch.look()
        mine.key.write_bytes(new_key)
        watch.look()
        assert caplog.records[-1].message == "certificate_reloaded"
        assert await asyncio.to_thread(serial_of, port, client(authority)) != before


def test_authorities_that_are_taken_away_vouch_for_nobody_any_more(
    loop_factory: Factory, authority: Authority, strangers: Authority, mine: Certified, tmp_path: Path
) -> None:
    trusted = tmp_path / "clients.pem"
    ours = client(authority, authority.certify("ours", [SPIFFE]))
    theirs = client(authority, strangers.certify("theirs", ["DNS:theirs.example"]))

    async def run() -> list[str]:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        told = []
        trusted.write_bytes(authority.file.read_bytes())
        watch = CertificateWatch(mine.certificate, mine.key, trusted)
        async with serving(watch.context) as port:
            for content in (authority, strangers):
                trusted.write_bytes(content.file.read_bytes())
                watch.look()
                told += [await asyncio.to_thread(ask, port, each) for each in (ours, theirs)]
        return told

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(run()) == [str((SPIFFE,)), "refused", "refused", str(("DNS:theirs.example",))]


async def test_a_session_from_before_the_authorities_changed_can_not_be_taken_up(
    authority: Authority, strangers: Authority, mine: Certified, tmp_path: Path
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    trusted = tmp_path / "clients.pem"
    trusted.write_bytes(authority.file.read_bytes())
    watch = CertificateWatch(mine.certificate, mine.key, trusted)
    context = client(authority, authority.certify("client", [SPIFFE]))
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    def told(port: int, session: ssl.SSLSession | None) -> tuple[str, ssl.SSLSession | None]:
        with connected(port, context, session) as sock:
            return sock.recv(65_536).decode(), sock.session

    async with serving(watch.context) as port:
        first, session = await asyncio.to_thread(told, port, None)
        again, session = await asyncio.to_thread(told, port, session)
        assert first == again == str((SPIFFE,))
        trusted.write_bytes(strangers.file.read_bytes())
        watch.look()
        for offered in (session, session, None):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.to_thread(told, port, offered)


async def test_the_watch_looks_by_itself_until_it_is_closed(
    authority: Authority, mine: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.rest.callers.certificates._LOOK_EACH_S", 0.01)
    watch = CertificateWatch(mine.certificate, mine.key)
    watch.open()
    async with serving(watch.context) as port:
        before = await asyncio.to_thread(serial_of, port, client(authority))
        authority.certify("server")

        async def has_changed() -> bool:
            return await asyncio.to_thread(serial_of, port, client(authority)) != before

        await until(has_changed)
    await watch.close()


async def test_a_watch_that_was_never_opened_can_be_closed(mine: Certified) -> None:
    await CertificateWatch(mine.certificate, mine.key).close()


def test_a_watch_can_not_begin_with_broken_files(mine: Certified, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        CertificateWatch(mine.certificate, tmp_path / "missing")
