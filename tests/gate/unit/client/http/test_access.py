"""Which service, as whom, with which proofs: flags and the file of properties."""

import argparse
from pathlib import Path

import pytest

from app.client.http.access import DEFAULT_TIMEOUT_S, AccessFlags, access_of, add_access_arguments, make_access
from app.formats.command_errors import UsageError
from tests.planted import plant

TOKEN = plant("klamm_planted-properties-token-98765")


def flags(url: str | None = None, principal: str | None = "User:admin", **more: str) -> AccessFlags:
    return AccessFlags(url=url, principal=principal, **more)


def config(folder: Path, text: str, mode: int = 0o600) -> str:
    file = folder / "client.properties"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def test_the_usual_service_is_the_one_on_this_machine() -> None:
    access = make_access(flags())
    assert (access.url, access.client_address, access.timeout_s) == ("http://127.0.0.1:8080", "127.0.0.1", 30.0)


def test_flags_are_arguments_of_every_command() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_access_arguments(parser)
    words = ["--klamm", "http://localhost:1/", "--as", "User:a", "--timeout", "2.5", "--token-file", "t"]
    access = access_of(parser.parse_args(words))
    assert (access.url, access.principal, access.timeout_s) == ("http://localhost:1", "User:a", 2.5)
    assert access.token_file == Path("t")


def test_nobody_is_asked_for_without_a_principal() -> None:
    with pytest.raises(UsageError, match="--as"):
        make_access(flags(principal=None))


@pytest.mark.parametrize("principal", ["", "alice"])
def test_a_principal_without_a_type_is_refused(principal: str) -> None:
    with pytest.raises(UsageError, match="--as"):
        make_access(flags(principal=principal))


def test_an_address_that_is_none_is_refused(subtests: pytest.Subtests) -> None:
    for url in [
        "ftp://host",
        "host:8080",
        "localhost:8080",
        "http://",
        "//host",
        "unix:",
        "unix:relative/path",
        "http://host/?a=b",
        "http://host/#here",
        "http://[::1",
        "http://host:x",
        "nonsense",
    ]:
        with subtests.test(url=url), pytest.raises(UsageError, match="--klamm"):
            make_access(flags(url))


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        make_access(flags(f"http://admin:{TOKEN}@localhost:1"))
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("url", ["unix:/run/klamm.sock", "unix:///run/klamm.sock"])
def test_a_socket_is_named_by_its_path(url: str) -> None:
    access = make_access(flags(url))
    assert (access.url, access.socket_path, access.client_address) == (
        "unix:/run/klamm.sock",
        "/run/klamm.sock",
        "127.0.0.1",
    )


def test_the_address_told_is_the_one_towards_the_service() -> None:
    assert make_access(flags("http://[::1]:1")).client_address in ("::1", "127.0.0.1")


def test_a_file_says_what_flags_do_not(tmp_path: Path) -> None:
    text = (
        "# how the operators ask\n"
        "principal = User:CN=ops\\, O=x\n"
        f"token={TOKEN}\n"
        "ssl.ca.location: ca.pem\n"
        "ssl.certificate.location=a.crt\n"
        "ssl.key.location=a.key\n"
        "request.timeout.ms=1500\n"
    )
    named = config(tmp_path, text)
    access = make_access(flags("https://localhost:1", principal=None, command_config=named))
    assert access.principal == "User:CN=ops, O=x"
    assert (access.token, access.timeout_s) == (TOKEN, 1.5)
    assert (access.ca_file, access.certificate, access.key) == (Path("ca.pem"), Path("a.crt"), Path("a.key"))
    over = make_access(flags(principal="User:b", command_config=named, timeout="9", token_file="t"))
    assert (over.principal, over.timeout_s, over.token, over.token_file) == ("User:b", 9.0, None, Path("t"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("bootstrap.servers=x:1", "line 1: unknown property; known are"),
        ("\n\nprincipal=User:a\nprincipal=User:b", "line 4: `principal` is set twice"),
        ("token=a\ntoken.file=b", "keep one of them"),
        ("principal=alice", "`principal`"),
        ("request.timeout.ms=soon", "`request.timeout.ms`"),
        ("request.timeout.ms=0", "`request.timeout.ms`"),
        ("request.timeout.ms=nan", "`request.timeout.ms`"),
    ],
)
def test_a_file_that_says_it_wrongly_is_refused(tmp_path: Path, text: str, told: str) -> None:
    principal = None if text.startswith("principal") else "User:admin"
    with pytest.raises(UsageError, match=told.replace(".", r"\.")):
        make_access(flags(principal=principal, command_config=config(tmp_path, text)))


@pytest.mark.parametrize(
    "line",
    [TOKEN, f"{TOKEN}==", f"  {TOKEN[:20]}:{TOKEN[20:]}", f"tokens={TOKEN}", f"{TOKEN}\\\n{TOKEN}"],
    ids=["bare", "padded", "in two", "misspelt", "on two lines"],
)
def test_a_line_that_is_a_token_is_not_shown(tmp_path: Path, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_access(flags(command_config=config(tmp_path, f"principal=User:a\n{line}\n")))
    assert "line 2: unknown property; known are principal" in str(caught.value)
    assert TOKEN[:20] not in str(caught.value)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_token_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(UsageError, match="chmod 600") as caught:
        make_access(flags(command_config=config(tmp_path, f"token={TOKEN}", mode)))
    assert TOKEN not in str(caught.value)


def test_a_file_without_a_token_may_be_read_by_all(tmp_path: Path) -> None:
    make_access(flags(command_config=config(tmp_path, "principal=User:a", 0o644)))


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    for path, content in (("absent", None), ("binary", b"\xff"), ("large", b"#" * 70_000)):
        if content is not None:
            (tmp_path / path).write_bytes(content)
        with pytest.raises(UsageError, match=path):
            make_access(flags(command_config=str(tmp_path / path)))


def test_a_timeout_that_is_none_is_refused(subtests: pytest.Subtests) -> None:
    for timeout in ["0", "-1", "x", "", "nan", "inf", "3601"]:
        with subtests.test(timeout=timeout), pytest.raises(UsageError, match="--timeout"):
            make_access(flags(timeout=timeout))


def test_an_authority_that_nothing_would_be_checked_by_is_refused() -> None:
    with pytest.raises(UsageError, match="--ca"):
        make_access(flags("http://localhost:1", ca_file="ca.pem"))


def test_without_a_word_about_it_a_call_takes_half_a_minute_at_most() -> None:
    assert make_access(flags()).timeout_s == DEFAULT_TIMEOUT_S == 30.0
