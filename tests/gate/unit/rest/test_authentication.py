import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from app.core.kafka.errors import ClusterAuthorizationException, SaslAuthenticationException
from app.formats.command_errors import UsageError
from app.metrics.declared import Metrics
from app.rest.callers import authentication, static_tokens
from app.rest.callers.authentication import Callers, Credentials, shows_one_at_most
from app.rest.callers.jwt_tokens import JwtVerifier, VerifiedToken
from app.rest.callers.roles import DECIDERS, FULL, Caller, Role, TokenRefusedError
from app.rest.callers.static_tokens import StaticTokens
from app.rest.callers.token_file import add_token, hash_of, read_tokens, retire_tokens
from tests.klamm import LIMIT_S, until

ORDERS = Caller("orders", Role.DECIDE, patterns=("User:*",))
PLATFORM = Caller("platform", Role.ADMIN, "User:platform")
NAMES = ("orders", "platform")
JWT = "eyJ.eyJ.sig"
NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def _wall_clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(time=lambda: NOW, monotonic=lambda: asyncio.get_running_loop().time())
    monkeypatch.setattr(authentication, "time", clock)


@dataclass
class Verifier:
    """Believes what it is told to."""

    good: dict[str, VerifiedToken] = field(default_factory=dict)
    generation: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def verify(self, token: str) -> VerifiedToken:
        self.asked.set()
        await asyncio.sleep(0)
        if token not in self.good:
            raise TokenRefusedError("jwt_signature")
        return self.good[token]

    def open(self) -> None:
        pass

    async def close(self) -> None:
        pass


@dataclass
class World:
    callers: Callers
    path: Path
    verifier: Verifier
    metrics: Metrics
    tokens: StaticTokens

    async def ask(
        self, *authorizations: str, open_to: tuple[Role, ...] = DECIDERS, names: Sequence[str] = ()
    ) -> Caller:
        headers = [(b"host", b"x"), *((b"authorization", each.encode()) for each in authorizations)]
        return await self.callers.admitted("authorize", open_to, headers, names)

    def known(self, authorization: str | None = None, names: Sequence[str] = ()) -> Caller | None:
        fields = {} if authorization is None else {b"authorization": authorization.encode()}
        return self.callers.known(fields, names)

    async def learn(self, token: str) -> None:
        """Ask until it is remembered: not so if its file has just changed."""

        async def is_remembered() -> bool:
            assert await self.ask(f"Bearer {token}") is ORDERS
            return self.known(f"Bearer {token}") is not None

        await until(is_remembered, "it is remembered")

    async def unknown_by(self, authorization: str) -> None:
        """Return once it is forgotten, which a look each second brings about."""
        await until(lambda: self.known(authorization) is None)


@asynccontextmanager
async def world(tmp_path: Path) -> AsyncIterator[World]:
    path = tmp_path / "tokens"
    add_token(path, "platform", NAMES)
    verifier, metrics = Verifier(), Metrics()
    tokens = StaticTokens(path, {"orders": ORDERS, "platform": PLATFORM}, metrics)
    credentials = Credentials(
        callers={"orders": ORDERS, "platform": PLATFORM},
        tokens=tokens,
        jwts=cast("JwtVerifier", verifier),
        subjects={("corp", "orders"): ORDERS},
        certificates={"URI:spiffe://x/orders": ORDERS, "DNS:platform": PLATFORM},
    )
    callers = Callers(credentials, metrics)
    callers.open()
    try:
        yield World(callers, path, verifier, metrics, tokens)
    finally:
        await callers.close()


async def test_a_token_is_told_from_others_and_then_known_at_once(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        token = add_token(it.path, "orders", NAMES)
        assert it.known(f"Bearer {token}") is None
        await it.learn(token)
        assert it.known(f"Bearer {token}x") is None
        assert await it.ask(f"bEARER  {token} ") is ORDERS


@pytest.mark.parametrize(
    ("authorizations", "names", "reason"),
    [
        ((), (), "no_credentials"),
        ((), ("DNS:stranger",), "certificate_unknown"),
        ((), ("DNS:platform", "URI:spiffe://x/orders"), "certificate_unknown"),
        (("Bearer nonsense",), (), "token_unknown"),
        (("Bearer ",), (), "token_unknown"),
        (("Bearer nonsense",), ("DNS:platform",), "token_unknown"),
        (("Basic YTpi",), (), "not_bearer"),
        (("Bearer a", "Bearer a"), (), "header_repeated"),
        (("Bearer " + "x" * 9_000,), (), "token_too_long"),
        ((f"Bearer {JWT}",), (), "jwt_signature"),
    ],
)
async def test_what_proves_nothing_is_refused_with_one_body(
    tmp_path: Path, authorizations: tuple[str, ...], names: tuple[str, ...], reason: str
) -> None:
    async with world(tmp_path) as it:
        with pytest.raises(SaslAuthenticationException) as refusal:
            await it.ask(*authorizations, names=names)
        assert refusal.value.message == authentication._REFUSAL
        assert it.metrics.callers_refused == {reason: 1}


async def test_a_file_changed_a_moment_ago_is_known_to_all_that_ask_at_once(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        token = add_token(it.path, "orders", NAMES)
        assert await asyncio.gather(*(it.ask(f"Bearer {token}") for _ in range(50))) == [ORDERS] * 50


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "_LOOK_S", 0.01)


@pytest.mark.usefixtures("looks_often")
async def test_what_others_may_have_written_is_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The tokens of before stay in force until the file is its owner's again."""
    async with world(tmp_path) as it:
        token = add_token(it.path, "orders", NAMES)
        await it.learn(token)
        # At once: a look between the two would still find a file that is its owner's alone.
        forged = it.path.with_name("forged")
        forged.write_text(f"orders sha256:{hash_of(b'forged').hex()}\n")
        forged.chmod(0o666)
        forged.replace(it.path)
        with pytest.raises(SaslAuthenticationException):
            await it.ask("Bearer forged")
        assert it.known(f"Bearer {token}") is ORDERS
        assert it.metrics.tokens_file_faults == 1
        (fault,) = [each.why for each in caplog.records if each.msg == "tokens_file_not_usable"]  # type: ignore[attr-defined]
        assert "chmod go-w" in fault
        it.path.write_text(f"platform sha256:{hash_of(b'good').hex()}\n")
        it.path.chmod(0o600)
        await it.unknown_by(f"Bearer {token}")
        assert await it.ask("Bearer good") is PLATFORM


@pytest.mark.usefixtures("looks_often")
async def test_a_retired_token_is_forgotten(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        old = add_token(it.path, "orders", NAMES)
        assert await it.ask(f"Bearer {old}") is ORDERS
        new = add_token(it.path, "orders", NAMES)
        assert await it.ask(f"Bearer {new}") is ORDERS
        await it.learn(old)
        retire_tokens(it.path, "orders", NAMES)
        await it.unknown_by(f"Bearer {old}")
        with pytest.raises(SaslAuthenticationException):
            await it.ask(f"Bearer {old}")
        assert await it.ask(f"Bearer {new}") is ORDERS


@pytest.mark.parametrize("content", ["", "half a li", None])
async def test_a_broken_file_locks_nobody_out_and_lets_nobody_in(tmp_path: Path, content: str | None) -> None:
    async with world(tmp_path) as it:
        token = add_token(it.path, "orders", NAMES)
        await it.learn(token)
        if content is None:
            it.path.unlink()
        else:
            it.path.write_text(content)
        with pytest.raises(SaslAuthenticationException):
            await it.ask("Bearer somebody")
        if content == "":
            # An empty file is a file: it says that there are no tokens.
            await it.unknown_by(f"Bearer {token}")
            return
        assert it.known(f"Bearer {token}") is ORDERS
        assert it.metrics.tokens_file_faults == 1


async def test_a_jwt_is_remembered_until_its_end_and_not_beyond(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.verifier.good[JWT] = VerifiedToken("corp", "orders", NOW + 3_600)
        assert await it.ask(f"Bearer {JWT}") is ORDERS
        assert it.known(f"Bearer {JWT}") is ORDERS
        digest = hashlib.sha256(f"Bearer {JWT}".encode()).digest()
        assert it.callers._remembered[digest][2] == NOW + 60
        it.callers._remembered.clear()
        it.verifier.good[JWT] = VerifiedToken("corp", "orders", NOW - 0.001)
        assert await it.ask(f"Bearer {JWT}") is ORDERS
        assert it.known(f"Bearer {JWT}") is None


@pytest.mark.usefixtures("looks_often")
async def test_jwts_are_forgotten_when_keys_change(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.verifier.good[JWT] = VerifiedToken("corp", "orders", NOW + 3_600)
        assert await it.ask(f"Bearer {JWT}") is ORDERS
        it.verifier.generation += 1
        await it.unknown_by(f"Bearer {JWT}")


async def test_a_good_jwt_of_a_stranger_is_refused(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        for issuer, subject in (("corp", "stranger"), ("other", "orders")):
            it.verifier.good[JWT] = VerifiedToken(issuer, subject, NOW + 3_600)
            with pytest.raises(SaslAuthenticationException):
                await it.ask(f"Bearer {JWT}")
        assert it.metrics.callers_refused == {"jwt_subject_unknown": 2}


async def test_what_was_found_under_old_tokens_is_not_remembered(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.verifier.good[JWT] = VerifiedToken("corp", "orders", NOW + 3_600)
        asking = asyncio.create_task(it.ask(f"Bearer {JWT}"))
        # Not `until`, which would look again when the answer is there.
        async with asyncio.timeout(LIMIT_S):
            await it.verifier.asked.wait()
        it.verifier.generation += 1
        assert await asking is ORDERS
        assert it.known(f"Bearer {JWT}") is None


async def test_a_certificate_needs_no_memory(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        names = ("URI:spiffe://x/orders", "DNS:something.else")
        assert it.known(None, names) is ORDERS
        assert await it.ask(names=names) is ORDERS


async def test_the_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "_MAX_REMEMBERED", 10)
    async with world(tmp_path) as it:
        for at in range(25):
            token = f"a.b.{at}"
            it.verifier.good[token] = VerifiedToken("corp", "orders", NOW + 3_600)
            await it.ask(f"Bearer {token}")
            assert len(it.callers._remembered) <= 10


async def test_a_call_that_is_not_open_to_the_role_is_refused(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        token = add_token(it.path, "orders", NAMES)
        with pytest.raises(ClusterAuthorizationException):
            await it.ask(f"Bearer {token}", open_to=FULL)


def test_a_file_that_is_not_usable_at_the_start_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        StaticTokens(tmp_path / "none", {"orders": ORDERS}, Metrics())


async def test_a_change_that_could_not_be_read_is_read_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(tmp_path) as it:
        old = add_token(it.path, "orders", NAMES)
        add_token(it.path, "orders", NAMES)
        await it.learn(old)
        read = read_tokens

        def failing(path: Path, _: object) -> Mapping[bytes, str]:
            raise UsageError(f"`{path}` can't be read (Too many open files)")

        monkeypatch.setattr(static_tokens, "read_tokens", failing)
        retire_tokens(it.path, "orders", NAMES)
        # Until the file is so old that nothing about it says any more that it has changed.
        long_ago = it.path.stat().st_mtime - 60
        os.utime(it.path, (long_ago, long_ago))
        for _ in range(3):
            await it.tokens.look()
        assert it.metrics.tokens_file_faults == 1
        monkeypatch.setattr(static_tokens, "read_tokens", read)
        await it.unknown_by(f"Bearer {old}")
        with pytest.raises(SaslAuthenticationException):
            await it.ask(f"Bearer {old}")


def test_of_several_authorization_headers_none_is_looked_up_among_those_that_are_remembered() -> None:
    shown, other = (b"authorization", b"Bearer a"), (b"host", b"k")
    for headers in ([], [shown], [other] * 3, [other, shown, other]):
        assert shows_one_at_most(headers)
    for headers in ([shown] * 2, [shown, other, (b"authorization", b"Bearer b")]):
        assert not shows_one_at_most(headers)
