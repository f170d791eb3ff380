"""What `--klamm` may say, and the one line for what it may not."""

import pytest

from app.client.http.access import checked_url
from app.formats.command_errors import UsageError


def test_addresses_are_taken_in_one_spelling(subtests: pytest.Subtests) -> None:
    for text, address in [
        ("http://host:8080", "http://host:8080"),
        ("http://host:8080/", "http://host:8080"),
        ("http://host:8080//", "http://host:8080"),
        ("HTTPS://Host:8443", "https://host:8443"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://proxy/klamm", "http://proxy/klamm"),
        ("http://proxy/klamm/", "http://proxy/klamm"),
        ("http://proxy/v1x", "http://proxy/v1x"),
        ("unix:/run/klamm.sock", "unix:/run/klamm.sock"),
        ("UNIX:///run/klamm.sock", "unix:/run/klamm.sock"),
    ]:
        with subtests.test(text=text, address=address):
            assert checked_url(text) == address


def test_what_is_no_address_is_told_in_one_line_with_the_way_out(subtests: pytest.Subtests) -> None:
    for text, told in [
        ("host:8080", "`host:8080` lacks http:// or https://; write http://host:8080"),
        ("10.0.0.5:8080", "`10.0.0.5:8080` lacks http:// or https://; write http://10.0.0.5:8080"),
        ("klamm", "`klamm` lacks http:// or https://; write http://klamm"),
        ("[::1]:80", "`[::1]:80` lacks http:// or https://; write http://[::1]:80"),
        ("http://h:1/v1", "klamm adds the API's paths itself; leave them out: http://h:1"),
        ("http://h:1/v1/", "klamm adds the API's paths itself; leave them out: http://h:1"),
        ("http://h:1/v1/acls", "klamm adds the API's paths itself; leave them out: http://h:1"),
        ("https://h/klamm/v1", "klamm adds the API's paths itself; leave them out: https://h/klamm"),
        ("http://h/?a=b", "the URL must not have `?` or `#`; leave them out"),
        ("http://h/#", "the URL must not have `?` or `#`; leave them out"),
        ("ftp://h", "expected http://host:port, https://host:port or unix:/path, not `ftp://h`"),
        ("http://", "expected http://host:port, https://host:port or unix:/path, not `http://`"),
        ("", "expected http://host:port, https://host:port or unix:/path, not ``"),
        ("http://h:99999", "99999 is not a port; use one from 1 to 65535"),
        ("unix:run/klamm.sock", "write the socket's whole path, such as unix:/run/klamm/klamm.sock"),
        ("unix:/" + "x" * 107, "the path of a socket may have at most 107 bytes; make it shorter"),
    ]:
        with subtests.test(text=text, told=told):
            with pytest.raises(UsageError) as caught:
                checked_url(text)
            assert str(caught.value) == f"--klamm: {told}"


@pytest.mark.parametrize("text", ["http://u:secret@h:1", "u:secret@h:1", "//u:secret@h", "http://u:secret@h:x"])
def test_a_password_is_never_repeated(text: str) -> None:
    with pytest.raises(UsageError, match="user or password") as caught:
        checked_url(text)
    assert "secret" not in str(caught.value)


def test_nothing_in_an_address_reaches_the_terminal_as_a_command() -> None:
    with pytest.raises(UsageError) as caught:
        checked_url("\x1b[2J://\nx")
    assert str(caught.value).isprintable()
