"""JSON Web Tokens: the good ones, and every way of being none."""

import base64
import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from app.rest.callers import jwt_tokens
from app.rest.callers.jwt_tokens import MAX_TOKEN_BYTES, REASONS, Issuer, JwtVerifier, VerifiedToken, check_times
from app.rest.callers.key_sets import KeySet
from app.rest.callers.roles import Caller, Role, TokenRefusedError
from app.rest.callers.signing_keys import ALGORITHMS, read_key_set
from tests import issuers
from tests.issuers import AUDIENCE, ISSUER, SUBJECT, Json, Key, key_set
from tests.key_server import KeyServer

NOW = 1_800_000_000
signer = partial(Key, now=NOW)
claims = partial(issuers.claims, NOW)
EC, RSA, UNNAMED = signer("ec"), signer("rsa", "RS256"), signer(None, "ES384")
STRANGER = signer("ec")
"""Another's key under our key's name."""
PUBLISHED = key_set(EC, RSA, UNNAMED)
LEEWAY_S = 30


@pytest.fixture(scope="module", autouse=True)
def _clock_stands_still() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jwt_tokens, "time", SimpleNamespace(time=lambda: NOW))
        yield


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    path.write_bytes(PUBLISHED)
    return path


def issuer(keys: KeySet, **more: object) -> Issuer:
    given = {
        "name": "main",
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "algorithms": frozenset({"RS256", "ES256", "ES384"}),
        "leeway_s": LEEWAY_S,
        **more,
    }
    return Issuer(**given, keys=keys)  # type: ignore[arg-type]  # the table above fits


@pytest.fixture
async def verifier(published: Path) -> JwtVerifier:
    keys = KeySet(str(published))
    await keys.refresh()
    return JwtVerifier([issuer(keys)])


async def reason(verifier: JwtVerifier, token: str) -> str:
    with pytest.raises(TokenRefusedError) as refusal:
        await verifier.verify(token)
    assert refusal.value.reason in REASONS
    return refusal.value.reason


def raw(header: object, payload: object, signature: bytes = b"signature") -> str:
    parts = [json.dumps(header).encode(), json.dumps(payload).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


# good ones


@pytest.mark.parametrize("key", [EC, RSA])
async def test_a_good_token_says_whose_it_is_and_until_when(verifier: JwtVerifier, key: Key) -> None:
    ends_at = NOW + 300
    assert await verifier.verify(key.token(exp=ends_at)) == VerifiedToken("main", SUBJECT, ends_at + LEEWAY_S)


async def test_a_verified_token_has_its_claims_by_which_groups_are_asserted(verifier: JwtVerifier) -> None:
    verified = await verifier.verify(EC.token(teams=["pii", "eng"], groups="x"))
    caller = Caller("broker", Role.DECIDE, patterns=("User:*",), groups_claim="teams").proven_by(verified.claims)
    assert caller.proven_groups == {"pii", "eng"}


@pytest.mark.parametrize(
    "more",
    [
        {"aud": [AUDIENCE]},
        {"aud": ["other", AUDIENCE, "third"]},
        {"nbf": -5},
        {"iat": None},
        {"exp": 300.5},
        {"exp": -LEEWAY_S + 1},
        {"nbf": LEEWAY_S},
        {"iat": LEEWAY_S},
        {"kubernetes.io": {"namespace": "orders", "serviceaccount": {"name": "api", "uid": "1"}}},
        {"admin": True, "scope": "all"},
    ],
)
async def test_what_a_good_token_may_say(verifier: JwtVerifier, more: Json) -> None:
    # Times are counted from now.
    more = {name: NOW + each if name in {"exp", "nbf", "iat"} and each else each for name, each in more.items()}
    assert (await verifier.verify(EC.token(**more))).subject == SUBJECT


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
async def test_every_algorithm_that_can_be_configured_works(tmp_path: Path, algorithm: str) -> None:
    key = signer("k", algorithm)
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(key))
    keys = KeySet(str(path))
    await keys.refresh()
    verifier = JwtVerifier([issuer(keys, algorithms=frozenset({algorithm}))])
    assert (await verifier.verify(key.token())).subject == SUBJECT


async def test_a_token_without_a_key_name_is_checked_with_the_only_key_that_fits(verifier: JwtVerifier) -> None:
    assert (await verifier.verify(UNNAMED.token())).subject == SUBJECT


async def test_a_token_of_a_service_account_is_one_like_any_other(published: Path) -> None:
    keys = KeySet(str(published))
    await keys.refresh()
    cluster = "https://kubernetes.default.svc.cluster.local"
    verifier = JwtVerifier([issuer(keys, issuer=cluster)])
    token = RSA.token(iss=cluster, aud=[AUDIENCE], sub="system:serviceaccount:orders:api")
    assert (await verifier.verify(token)).subject == "system:serviceaccount:orders:api"


# bad ones


def signed_with_the_public_key(encoding: Encoding, form: PublicFormat, algorithm: str = "HS256") -> str:
    """Algorithm confusion: what everybody knows, taken for a secret."""
    secret = RSA.private.public_key().public_bytes(encoding, form)
    head = {"alg": algorithm, "kid": "rsa", "typ": "JWT"}
    unsigned = raw(head, claims(), b"").rstrip(".")
    mac = jwt.get_algorithm_by_name(algorithm).sign(unsigned.encode(), secret)
    return f"{unsigned}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def other_payload(token: str, **more: object) -> str:
    head, _, signature = token.split(".")
    return f"{head}.{raw({}, claims(**more)).split('.')[1]}.{signature}"


BAD: dict[str, tuple[str, str]] = {
    "no audience": (EC.token(aud=None), "jwt_missing_aud"),
    "empty audience": (EC.token(aud=""), "jwt_missing_aud"),
    "empty list of audiences": (EC.token(aud=[]), "jwt_missing_aud"),
    "wrong audience": (EC.token(aud="other"), "jwt_audience"),
    "audience in other case": (EC.token(aud="Klamm"), "jwt_audience"),
    "audience that begins alike": (EC.token(aud="klamm2"), "jwt_audience"),
    "audience list without ours": (EC.token(aud=["other", "klamm2"]), "jwt_audience"),
    "audience list with a number": (EC.token(aud=[AUDIENCE, 7]), "jwt_audience"),
    "audience that is an object": (EC.token(aud={AUDIENCE: True}), "jwt_audience"),
    "algorithm none": (raw({"alg": "none", "kid": "ec"}, claims(), b""), "jwt_algorithm"),
    "algorithm None": (raw({"alg": "None", "kid": "ec"}, claims(), b""), "jwt_algorithm"),
    "algorithm empty": (raw({"alg": "", "kid": "ec"}, claims()), "jwt_algorithm"),
    "algorithm missing": (raw({"kid": "ec"}, claims()), "jwt_malformed"),
    "algorithm a list": (raw({"alg": ["ES256"], "kid": "ec"}, claims()), "jwt_malformed"),
    "signature missing": (EC.token().rpartition(".")[0] + ".", "jwt_signature"),
    "signed with the public key (PEM)": (
        signed_with_the_public_key(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "jwt_algorithm",
    ),
    "signed with the public key (DER)": (
        signed_with_the_public_key(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "jwt_algorithm",
    ),
    "signed with the public key, HS512": (
        signed_with_the_public_key(Encoding.PEM, PublicFormat.PKCS1, "HS512"),
        "jwt_algorithm",
    ),
    "algorithm that is not configured": (signer("rsa", "PS256", private=RSA.private).token(), "jwt_algorithm"),
    "algorithm of another kind of key": (raw({"alg": "RS256", "kid": "ec"}, claims()), "jwt_key_algorithm"),
    "no key name, wrong key": (signer(None).token(), "jwt_signature"),
    "wrong issuer": (EC.token(iss="https://other.example/"), "jwt_issuer"),
    "issuer without its slash": (EC.token(iss=ISSUER.rstrip("/")), "jwt_issuer"),
    "issuer missing": (EC.token(iss=None), "jwt_missing_iss"),
    "issuer empty": (EC.token(iss=""), "jwt_issuer"),
    "issuer null": (EC.sign({**claims(), "iss": None}), "jwt_missing_iss"),
    "issuer a list": (raw({"alg": "ES256", "kid": "ec"}, claims(iss=[ISSUER])), "jwt_malformed"),
    "unknown key": (signer("unknown").token(), "jwt_unknown_key"),
    "key name in other case": (signer("EC", private=EC.private).token(), "jwt_unknown_key"),
    "key name empty": (signer("", private=EC.private).token(), "jwt_unknown_key"),
    "key name a number": (raw({"alg": "ES256", "kid": 7}, claims()), "jwt_malformed"),
    "key name null": (raw({"alg": "ES384", "kid": None}, claims()), "jwt_malformed"),
    "key name a path": (signer("../../dev/null", private=EC.private).token(), "jwt_unknown_key"),
    "wrong key": (STRANGER.token(), "jwt_signature"),
    "payload exchanged": (other_payload(EC.token(), sub="admin"), "jwt_signature"),
    "own key in the header": (STRANGER.sign(claims(), jwk=STRANGER.jwk()), "jwt_signature"),
    "own key's URL in the header": (STRANGER.sign(claims(), jku="https://evil.example/keys"), "jwt_signature"),
    "own certificate's URL in the header": (STRANGER.sign(claims(), x5u="https://evil.example/x"), "jwt_signature"),
    "critical header": (raw({"alg": "ES256", "kid": "ec", "crit": ["exp"], "exp": 1}, claims()), "jwt_critical_header"),
    "critical header b64": (
        raw({"alg": "ES256", "kid": "ec", "crit": ["b64"], "b64": False}, claims()),
        "jwt_critical_header",
    ),
    "critical header empty": (raw({"alg": "ES256", "kid": "ec", "crit": []}, claims()), "jwt_critical_header"),
    "detached payload": (raw({"alg": "ES256", "kid": "ec", "b64": False}, claims()), "jwt_malformed"),
    "expired": (EC.token(exp=NOW - 3600), "jwt_expired"),
    "expired beyond the leeway": (EC.token(exp=NOW - LEEWAY_S), "jwt_expired"),
    "end missing": (EC.token(exp=None), "jwt_missing_exp"),
    "end null": (EC.sign({**claims(), "exp": None}), "jwt_missing_exp"),
    "end a text": (EC.sign(claims(exp=str(NOW + 300))), "jwt_malformed"),
    "end true": (EC.token(exp=True), "jwt_malformed"),
    "end infinite": (EC.token(exp=float("inf")), "jwt_malformed"),
    "end NaN": (EC.token(exp=float("nan")), "jwt_malformed"),
    "end beyond floats": (EC.token(exp=10**400), "jwt_malformed"),
    "not yet valid": (EC.token(nbf=NOW + 14_400), "jwt_not_yet_valid"),
    "not yet valid beyond the leeway": (EC.token(nbf=NOW + LEEWAY_S + 1), "jwt_not_yet_valid"),
    "beginning null": (EC.sign({**claims(), "nbf": None}), "jwt_malformed"),
    "issued in the future": (EC.token(iat=NOW + 14_400), "jwt_not_yet_valid"),
    "issued at a text": (EC.token(iat="now"), "jwt_malformed"),
    "subject missing": (EC.token(sub=None), "jwt_missing_sub"),
    "subject a list": (EC.token(sub=["a"]), "jwt_subject"),
    "subject empty": (EC.token(sub=""), "jwt_missing_sub"),
    "subject blank": (EC.token(sub=" \t"), "jwt_missing_sub"),
    "subject null": (EC.sign({**claims(), "sub": None}), "jwt_missing_sub"),
    "claims a list": (raw({"alg": "ES256", "kid": "ec"}, [1]), "jwt_malformed"),
    "empty": ("", "jwt_malformed"),
    "garbage": ("garbage", "jwt_malformed"),
    "two dots": ("..", "jwt_malformed"),
    "ten dots": ("." * 10, "jwt_malformed"),
    "five parts, as an encrypted one has": ("a.b.c.d.e", "jwt_malformed"),
    "two parts": (EC.token().rpartition(".")[0], "jwt_malformed"),
    "no base64": ("!!!.???.***", "jwt_malformed"),
    "not ASCII": (EC.token() + "é", "jwt_malformed"),
    "NUL": (EC.token() + "\x00", "jwt_malformed"),
    "line break": (EC.token() + "\n", "jwt_malformed"),
    "no JSON": ("YQ.YQ.YQ", "jwt_malformed"),
    "UTF-16": (".".join([base64.urlsafe_b64encode('{"alg":"ES256"}'.encode("utf-16")).decode()] * 3), "jwt_malformed"),
    "deep": (".".join([base64.urlsafe_b64encode(b"[" * 1500).decode()] * 3), "jwt_malformed"),
    "deep within": (
        raw({"alg": "ES256", "kid": "ec"}, {}).replace(
            ".e30.", "." + base64.urlsafe_b64encode(b'{"x":' + b"[" * 1501).decode() + "."
        ),
        "jwt_malformed",
    ),
    "huge": ("a" * (MAX_TOKEN_BYTES + 1), "jwt_too_long"),
    "huge but good": (EC.token(padding="x" * MAX_TOKEN_BYTES), "jwt_too_long"),
    "huge with dots": ("." * 1_000_000, "jwt_too_long"),
}


def spelled_otherwise(part: str) -> Iterator[str]:
    """The same bytes in other texts, for decoders that skip what they do not know."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    yield f"{part}="
    yield f"{part}=="
    yield f"{part}{'=' * (-len(part) % 4)}===="
    yield f"={part}"
    yield from (f"{part[:4]}{each}{part[4:]}" for each in (" ", "\t", "\r\n", "!", "%", "="))
    yield f"{part} "
    if "-" in part or "_" in part:
        yield part.replace("-", "+").replace("_", "/")
    if len(part) % 4:
        yield part[:-1] + digits[digits.index(part[-1]) ^ 1]


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("key", [EC, RSA])
async def test_each_part_has_one_text(verifier: JwtVerifier, key: Key, at: int) -> None:
    """A signature of the text is a good one, whatever the text: of the header, the claims and itself."""
    # With digits that both alphabets spell differently.
    good = key.token(note="\u00ff\u00fe" * 30, sub="?>?>?>~~~").split(".")
    assert await verifier.verify(".".join(good))
    texts = list(spelled_otherwise(good[at]))
    assert len(texts) > 10
    for text in texts:
        parts = [*good]
        parts[at] = text
        if at < 2:
            parts[2] = signature_of(key, f"{parts[0]}.{parts[1]}")
        assert await reason(verifier, ".".join(parts)) == "jwt_malformed", text


def signature_of(key: Key, text: str) -> str:
    algorithm = jwt.get_algorithm_by_name(key.algorithm)
    return base64.urlsafe_b64encode(algorithm.sign(text.encode(), key.private)).rstrip(b"=").decode()


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_token_is_refused_with_a_word(verifier: JwtVerifier, name: str) -> None:
    token, expected = BAD[name]
    assert await reason(verifier, token) == expected


def test_every_word_is_shown() -> None:
    assert {expected for _, expected in BAD.values()} | {"jwt_keys_never_read"} == REASONS


def test_every_word_stands_in_the_documentation() -> None:
    page = (Path(__file__).parents[4] / "docs" / "callers.md").read_text()
    assert [word for word in REASONS if f"`{word}`" not in page] == []


@given(st.text(max_size=60) | st.text("ae.=_-", max_size=60))
async def test_whatever_comes_is_refused_and_no_more(token: str) -> None:
    assert await reason(JwtVerifier([]), token) == "jwt_malformed"


_JSON = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.lists(st.integers(), max_size=2)
)
_CLAIMS = st.sampled_from(["exp", "nbf", "iat", "iss", "aud", "sub", "jti"])


@given(
    st.dictionaries(_CLAIMS, _JSON, min_size=1, max_size=4),
    st.dictionaries(st.sampled_from(["typ", "crit", "b64", "cty", "x5c"]), _JSON, max_size=3),
)
async def test_whatever_a_signed_token_says_it_is_good_or_refused_with_a_word(more: Json, header: Json) -> None:
    signature_of = jwt.get_algorithm_by_name("ES256")
    unsigned = raw({"alg": "ES256", "kid": "ec", **header}, {**claims(), **more}, b"").rstrip(".")
    signature = base64.urlsafe_b64encode(signature_of.sign(unsigned.encode(), EC.private)).rstrip(b"=").decode()
    keys = KeySet("unused")
    keys._take(read_key_set(PUBLISHED))
    try:
        verified = await JwtVerifier([issuer(keys)]).verify(f"{unsigned}.{signature}")
    except TokenRefusedError:
        await reason(JwtVerifier([issuer(keys)]), f"{unsigned}.{signature}")
        return
    assert verified.subject == more.get("sub", SUBJECT)
    assert verified.expires_at > NOW
    assert more.get("iss", ISSUER) == ISSUER
    assert AUDIENCE in more.get("aud", [AUDIENCE])
    assert "crit" not in header


# time


@pytest.mark.parametrize(
    ("claim", "offset_s", "good"),
    [
        ("exp", -LEEWAY_S + 1, True),
        ("exp", -LEEWAY_S, False),
        ("nbf", LEEWAY_S, True),
        ("nbf", LEEWAY_S + 1, False),
        ("iat", LEEWAY_S, True),
        ("iat", LEEWAY_S + 1, False),
    ],
)
def test_the_leeway_is_exact(claim: str, offset_s: int, good: bool) -> None:  # noqa: FBT001 - a parameter
    claims: Json = {"iat": 999_000, "exp": 1_000_300, claim: 1_000_000 + offset_s}
    if good:
        assert check_times(claims, LEEWAY_S, 1_000_000.0) == claims["exp"] + LEEWAY_S
    else:
        with pytest.raises(TokenRefusedError, match=r"jwt_expired|jwt_not_yet_valid"):
            check_times(claims, LEEWAY_S, 1_000_000.0)


async def test_a_token_may_be_remembered_until_its_end_with_the_leeway(published: Path) -> None:
    keys = KeySet(str(published))
    await keys.refresh()
    expires_at = NOW + 3_600
    assert (await JwtVerifier([issuer(keys)]).verify(EC.token(exp=expires_at))).expires_at == expires_at + LEEWAY_S


# configuration


def test_an_issuer_that_would_believe_too_much_can_not_be_made(subtests: pytest.Subtests) -> None:
    cases: Iterable[tuple[Json, str]] = [
        ({"audience": ""}, "`issuer` and `audience` are required"),
        ({"issuer": ""}, "`issuer` and `audience` are required"),
        ({"algorithms": frozenset()}, "`algorithms` must be some of"),
        ({"algorithms": frozenset({"none"})}, "`algorithms` must be some of"),
        ({"algorithms": frozenset({"ES256", "HS256"})}, "`algorithms` must be some of"),
        ({"leeway_s": 61}, "`leeway_s` must be 0 to 60"),
        ({"leeway_s": -1}, "`leeway_s` must be 0 to 60"),
    ]
    for more, why in cases:
        with subtests.test(more=more, why=why), pytest.raises(ValueError, match=why):
            issuer(KeySet("unused"), **more)


def test_two_issuers_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="one table per issuer"):
        JwtVerifier([issuer(KeySet("a")), issuer(KeySet("b"), name="other")])


async def test_a_token_is_checked_with_the_keys_of_its_own_issuer_only(tmp_path: Path) -> None:
    issuers = []
    for name, key in (("ours", EC), ("theirs", STRANGER)):
        path = tmp_path / name
        path.write_bytes(key_set(key))
        keys = KeySet(str(path))
        await keys.refresh()
        issuers.append(issuer(keys, name=name, issuer=name, audience=f"klamm-{name}"))
    verifier = JwtVerifier(issuers)
    assert (await verifier.verify(STRANGER.token(iss="theirs", aud="klamm-theirs"))).issuer_name == "theirs"
    assert await reason(verifier, STRANGER.token(iss="ours", aud="klamm-ours")) == "jwt_signature"
    assert await reason(verifier, STRANGER.token(iss="theirs", aud="klamm-ours")) == "jwt_audience"


# keys that change


@pytest.fixture
def server() -> Iterator[KeyServer]:
    with KeyServer(key_set(EC)) as running:
        yield running


async def test_an_unknown_key_is_looked_for_once(server: KeyServer) -> None:
    verifier = JwtVerifier([issuer(KeySet(server.url))])
    assert (await verifier.verify(EC.token())).subject == SUBJECT
    assert verifier.generation == 1
    for _ in range(5):
        assert await reason(verifier, signer("unknown").token()) == "jwt_unknown_key"
    assert len(server.seen) == 1


async def test_a_key_that_is_gone_is_worth_nothing_after_the_next_look(server: KeyServer) -> None:
    keys = KeySet(server.url)
    verifier = JwtVerifier([issuer(keys)])
    token = EC.token()
    await verifier.verify(token)
    server.body = key_set(signer("new"))
    await keys.refresh()
    assert verifier.generation == 2
    assert await reason(verifier, token) == "jwt_unknown_key"


async def test_keys_that_were_never_read_let_nobody_in(server: KeyServer) -> None:
    server.status = 500
    assert await reason(JwtVerifier([issuer(KeySet(server.url))]), EC.token()) == "jwt_keys_never_read"


async def test_tokens_that_are_bad_anyway_cause_no_look(server: KeyServer) -> None:
    verifier = JwtVerifier([issuer(KeySet(server.url))])
    for token in (signer("x").token(iss="other"), raw({"alg": "HS256", "kid": "x"}, claims()), "garbage"):
        await reason(verifier, token)
    assert server.seen == []


async def test_open_reads_the_keys_of_all_issuers_and_close_ends_it(server: KeyServer, published: Path) -> None:
    verifier = JwtVerifier([issuer(KeySet(server.url)), issuer(KeySet(str(published)), name="b", issuer="b")])
    verifier.open()
    try:
        for verify in (EC.token(), EC.token(iss="b")):
            assert (await verifier.verify(verify)).subject == SUBJECT
        assert verifier.generation == 2
    finally:
        await verifier.close()
