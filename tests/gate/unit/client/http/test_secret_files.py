"""Whose files of secrets are believed to be secret: by their mode, their owner and their mount."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from app.client.http.access import Access, AccessFlags, make_access
from app.client.http.credentials import Bearer, tls_context
from app.formats.command_errors import UsageError
from app.formats.secret_files import lets_others_in
from tests.certificates import Authority
from tests.planted import plant

TOKEN = plant("klamm_planted-secret-file-token-4711")
ACCESS = Access("http://127.0.0.1:1", "User:admin")
ROOT, MINE, OTHER = 0, 1000, 1001


def test_what_its_owner_alone_may_touch_is_a_secret(subtests: pytest.Subtests) -> None:
    for mode in [0o600, 0o400, 0o700, 0o100600]:
        for owner in [ROOT, MINE, OTHER]:
            with subtests.test(mode=mode, owner=owner):
                assert not lets_others_in(mode, owner, MINE, is_read_only=False)


def test_what_others_or_a_group_may_touch_is_none(subtests: pytest.Subtests) -> None:
    for mode in [0o644, 0o604, 0o640, 0o660, 0o620, 0o602, 0o601, 0o666]:
        for owner in [MINE, OTHER]:
            with subtests.test(mode=mode, owner=owner):
                assert lets_others_in(mode, owner, MINE, is_read_only=False)


@pytest.mark.parametrize(("mode", "is_open"), [(0o440, False), (0o640, False), (0o660, True), (0o444, True)])
def test_a_group_may_read_what_root_has_put_there_for_it(mode: int, *, is_open: bool) -> None:
    assert lets_others_in(mode, ROOT, MINE, is_read_only=False) is is_open


def test_roots_own_secrets_are_roots_alone() -> None:
    assert lets_others_in(0o640, ROOT, ROOT, is_read_only=False)


@pytest.mark.parametrize("mode", [0o444, 0o644, 0o440])
def test_on_a_read_only_mount_who_made_it_has_decided(mode: int) -> None:
    assert not lets_others_in(mode, MINE, MINE, is_read_only=True)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return file


def test_a_token_file_that_others_can_read_is_refused_with_its_mode_and_the_way_out(token_file: Path) -> None:
    token_file.chmod(0o644)
    with pytest.raises(UsageError) as caught:
        Bearer(replace(ACCESS, token_file=token_file)).header()
    assert str(caught.value) == (
        f"--token-file: other users can read or change the token in `{token_file}` (mode 0644); "
        "restrict it to its owner: chmod 600"
    )
    token_file.chmod(0o600)
    assert Bearer(replace(ACCESS, token_file=token_file)).header() == {"authorization": f"Bearer {TOKEN}"}


def test_a_token_file_of_a_file_of_properties_is_named_as_such(token_file: Path, tmp_path: Path) -> None:
    token_file.chmod(0o640)
    properties = tmp_path / "client.properties"
    properties.write_text(f"principal=User:a\ntoken.file={token_file}")
    properties.chmod(0o644)
    access = make_access(AccessFlags(command_config=str(properties)))
    with pytest.raises(UsageError, match=r"--command-config: `token.file`: .* \(mode 0640\); .* chmod 600"):
        Bearer(access).header()


def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    made = Authority(tmp_path).certify("client")
    certificate, key = made.certificate, made.key
    access = replace(ACCESS, url="https://127.0.0.1:1", certificate=certificate, key=key)
    key.chmod(0o600)
    certificate.chmod(0o644)
    tls_context(access)
    key.chmod(0o644)
    with pytest.raises(UsageError) as caught:
        tls_context(access)
    assert str(caught.value) == (
        f"--command-config: `ssl.key.location`: other users can read or change the private key in `{key}` (mode 0644); "
        "restrict it to its owner: chmod 600"
    )


def test_a_token_that_comes_through_a_pipe_is_read_once_and_shown_with_each_call() -> None:
    reading, writing = os.pipe()
    os.write(writing, f"{TOKEN}\n".encode())
    os.close(writing)
    bearer = Bearer(replace(ACCESS, token_file=Path(f"/dev/fd/{reading}")))
    shown = {"authorization": f"Bearer {TOKEN}"}
    assert [bearer.header(), bearer.header()] == [shown, shown]
    os.close(reading)
