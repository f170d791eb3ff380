"""What is a secret does not get through, in whatever shape; what is none does."""

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.formats.database_url import DatabaseUrl
from app.logs.redaction import LONGEST_TEXT, conceal, conceal_url, is_secret_by_name, redacted, reveal_all

JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJhIn0.c2ln-bmF0_dXJl"


@pytest.fixture(autouse=True)
def nothing_stays_concealed() -> Iterator[None]:
    yield
    reveal_all()


def test_what_looks_like_a_secret_is_masked(subtests: pytest.Subtests) -> None:
    for text, shown in [
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: ***"),
        ("authorization: Bearer abc def\nnext", "authorization: ***\nnext"),
        (
            "[(b'host', b'x'), (b'authorization', b'Basic abc'), (b'a', b'b')]",
            "[(b'host', b'x'), (b'authorization', b'***'), (b'a', b'b')]",
        ),
        ('{"authorization": "Basic abc", "a": "b"}', '{"authorization": "***", "a": "b"}'),
        ("{'Proxy-Authorization': 'Basic abc'}", "{'Proxy-Authorization': '***'}"),
        (r'"{\"authorization\": \"Basic abc\"}"', '"{\\"authorization\\": \\"***"}"'),
        ("it sent Bearer s3cr3t.tok-en_= to us", "it sent Bearer *** to us"),
        ("bearer  s3cr3t, BEARER 'other'", "bearer  ***, BEARER '***'"),
        (
            "dsn postgresql://klamm:s3cr3t@db:5432/klamm?x=1 refused",
            "dsn postgresql://klamm:***@db:5432/klamm?x=1 refused",
        ),
        ("postgresql://klamm:s3/c@r:3t@db/klamm", "postgresql://klamm:***@db/klamm"),
        ("postgresql+asyncpg://u:p@h,postgres://u:p@i", "postgresql+asyncpg://u:***@i"),
        ("host=db user=klamm password=s3cr3t port=1", "host=db user=klamm password=*** port=1"),
        ("postgresql://db/x?password=s3cr3t&sslmode=require", "postgresql://db/x?password=***&sslmode=require"),
        ("password = 's3 cr3t' host=db", "password = '***' host=db"),
        ("client_secret: s3cr3t; api-key=k3y", "client_secret: ***; api-key=***"),
        (f"token {JWT} is refused", "token *** is refused"),
        (f"?access_token={JWT}&a=b", "?access_token=***&a=b"),
        (f"{JWT[:-9]}", "***"),
        (f"line sha256:{'0a' * 32} of tokens.file", "line sha256:*** of tokens.file"),
        (f"SHA256:{'0A' * 32}", "sha256:***"),
    ]:
        with subtests.test(text=text, shown=shown):
            assert redacted(text) == shown


def test_what_is_no_secret_stays_as_it_is(subtests: pytest.Subtests) -> None:
    for text in [
        "",
        "orders",
        "User:alice@example.org",
        "http://host:8080/path",
        "mailto:a@b",
        "it has http://x and a@b",
        'password authentication failed for user "klamm"',
        "CLUSTER_AUTHORIZATION_FAILED: no",
        "unauthorized",
        "Cluster authorization failed.",
        "keyJob.v1.events",
        "eyJ.a.b",
        "1.2.3",
        "sha256:abc",
        "secretary",
        "* ** ***",
        "the authorization, that is missing",
        "3f9a1c0b7d2e-1a",
        "\u65e5\u672c.\u8a9e.eyJ",
        "bearer",
    ]:
        with subtests.test(text=text):
            assert redacted(text) == text


@pytest.mark.parametrize("secret", ["hunter22", "p@ss/w:rd 'x' \"y\" \\z", "\u00fcn\u00efc\u00f6de", "a%40b", "1234"])
def test_a_secret_that_is_known_is_masked_however_it_is_written(secret: str) -> None:
    conceal(secret)
    forms = [
        secret,
        repr(secret),
        repr({"a": secret}),
        json.dumps({"a": secret}),
        quote(secret, safe=""),
        quote(secret),
    ]
    for form in forms:
        shown = redacted(f"it is {form} here")
        assert secret not in shown
        assert repr(secret)[1:-1] not in shown
        assert "***" in shown, form


def test_a_secret_within_another_does_not_uncover_it() -> None:
    conceal("hunter")
    conceal("hunter22-and-more")
    assert redacted("hunter22-and-more hunter") == "*** ***"


def test_a_secret_too_short_to_be_found_is_refused() -> None:
    with pytest.raises(ValueError, match="4 characters"):
        conceal("abc")
    assert redacted("abc") == "abc"


def test_a_url_conceals_its_passwords() -> None:
    conceal_url(DatabaseUrl.parse("postgresql://klamm:hunter%4022@db/klamm?password=other-one&sslmode=require"))
    assert redacted("hunter@22 hunter%4022 other-one require") == "*** *** *** require"


def test_short_passwords_are_masked_within_their_url() -> None:
    conceal_url(DatabaseUrl.parse("postgresql://klamm:abc@db/klamm"))
    assert redacted("at postgresql://klamm:abc@db/other") == "at postgresql://klamm:***@db/other"


def test_fields_are_secret_by_their_names(subtests: pytest.Subtests) -> None:
    for name in ["password", "DB_PASSWORD", "authorization", "client_secret", "credentials", "api.key"]:
        with subtests.test(name=name):
            assert is_secret_by_name(name)
            assert not is_secret_by_name("offset")


def test_a_long_text_is_cut_and_says_so() -> None:
    shown = redacted("x" * 200_000)
    assert shown == "x" * LONGEST_TEXT + "... (200000 characters in all)"
    assert redacted("x" * LONGEST_TEXT) == "x" * LONGEST_TEXT


@given(st.integers(0, 40_000))
def test_no_cut_leaves_a_part_of_a_secret(short_of_the_end: int) -> None:
    conceal("hunter22-and-more")
    text = "hunter22-and-more" * 5_000 + "x" * short_of_the_end + "hunter22-and-more" * 2_000
    assert "hunter" not in redacted(text)


@pytest.mark.parametrize(
    "unit",
    ["eyJ", "eyJ.", "a://b:", "bearer ", "authorization:", "password=", "authorization' ,", "sha256:", "sha256:aaaa",
     " ", "\\", "'", "a@", "eyJ" * 7 + ".", "\u2028", "Bearer=" + "=" * 50],
)  # fmt: skip
@pytest.mark.timeout(300)
def test_eight_megabytes_of_the_worst_are_soon_done(unit: str) -> None:
    conceal("hunter22")
    text = unit * (8 * 1024 * 1024 // len(unit))
    for _ in range(20):
        redacted(text)
        redacted(text[:LONGEST_TEXT])


def test_tokens_that_klamm_makes_are_known_by_their_shape(subtests: pytest.Subtests) -> None:
    for text in [
        "GET /x?access_token={}",
        "cookie: session={}",
        "{{'token': '{}'}}",
        "authorization%3DBearer%20{}",
        "Bearer\\t{}",
        "Bearer+{}",
    ]:
        with subtests.test(text=text):
            token = "klamm_Q2hlY2tzIGZvciBhIHRva2VuIGFyZSBjaGVhcCBlbm8"
            assert token not in redacted(text.format(token))


@pytest.mark.parametrize("text", ["authorization=Bearer%20{}", "x Bearer\\t{}", "y Bearer+{}"])
def test_a_bearers_token_is_masked_however_it_is_quoted(text: str) -> None:
    assert "abcdef123456" not in redacted(text.format("abcdef123456"))
