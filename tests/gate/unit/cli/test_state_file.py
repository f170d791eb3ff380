"""The folder of the state file at a service's start: one service's alone, and refused where it can't be one."""

import os
from pathlib import Path

import pytest

from app.cli.state_file import state_folder_held, state_of
from app.formats.command_errors import UsageError
from app.settings.model import Settings


def settings(**values: object) -> Settings:
    return Settings.model_validate({"database_url": "postgresql://a:b@localhost/c", **values})


def test_two_services_can_not_have_one_folder(tmp_path: Path) -> None:
    one = settings(state_path=tmp_path / "state")
    with (
        state_folder_held(one),
        pytest.raises(UsageError, match="another service keeps its image"),
        state_folder_held(one),
    ):
        pass


@pytest.mark.parametrize("folder", ["missing/state", "file", "file/state"])
def test_what_can_not_be_a_folder_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(UsageError, match=r"^state\.path: .*parent exists"),
        state_folder_held(settings(state_path=tmp_path / folder)),
    ):
        pass


@pytest.mark.parametrize("target", ["link", "missing", "folder"])
def test_a_link_in_the_folder_s_place_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(target)
    with (
        pytest.raises(UsageError, match=r"^state\.path: .*link` is a symbolic link; name the folder that it leads to"),
        state_folder_held(settings(state_path=tmp_path / "link")),
    ):
        pass


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_a_folder_that_others_can_write_to_is_refused_with_the_way_out(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    with (
        pytest.raises(UsageError, match=rf"^state\.path: other users .* \(mode {mode:04o}\); .*chmod go-w.*inside it"),
        state_folder_held(settings(state_path=folder)),
    ):
        pass
    with state_folder_held(settings(state_path=folder / "own")):
        assert (folder / "own").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_another_user_s_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.chown(tmp_path / "folder", 12_345, -1)
    with (
        pytest.raises(UsageError, match=r"^state\.path: .* belongs to user id 12345, but Klamm runs as user id"),
        state_folder_held(settings(state_path=tmp_path / "folder")),
    ):
        pass


def origin(**values: object) -> frozenset[str]:
    state = state_of(Settings.model_validate({"state_path": "/state", **values}))
    assert state is not None
    return state.origin


def test_an_origin_is_where_the_source_is_and_tells_no_secret() -> None:
    one = origin(database_url="postgresql://app:secret@db.example:5432/acls?sslmode=require")
    assert one == origin(database_url="postgresql://admin:other@DB.example/acls")
    assert "secret" not in str(one)
    others = [
        origin(database_url="postgresql://app:secret@db.example:5433/acls"),
        origin(database_url="postgresql://app:secret@db.example:5432/staging"),
        origin(database_url="postgresql://app:secret@db-2.example:5432/acls"),
        origin(upstream_urls="https://db.example:5432"),
        origin(),
    ]
    assert all(one.isdisjoint(each) for each in others)


def test_an_origin_has_each_address_of_the_source() -> None:
    both = origin(database_url="postgresql://a:b@one,two:5433/acls")
    assert both > origin(database_url="postgresql://a:b@one/acls")
    assert both > origin(database_url="postgresql://a:b@two:5433/acls")
    followed = origin(upstream_urls="https://one,https://two")
    assert followed > origin(upstream_urls="https://TWO/")


def test_a_folder_that_can_not_be_written_to_is_no_reason_not_to_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with state_folder_held(settings(state_path=tmp_path / "state")):
        assert "state_folder_unusable" in caplog.text


def test_options_say_what_the_settings_say(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"k" * 32 + b"\n")
    (tmp_path / "key").chmod(0o600)
    assert state_of(settings()) is None
    state = state_of(
        settings(state_path=tmp_path, state_max_age_ms=5_000, state_hmac_key_file=tmp_path / "key", cluster_id="c")
    )
    assert state is not None
    assert (state.path, state.max_age_s, state.key, state.cluster_id) == (tmp_path, 5.0, b"k" * 32, "c")


@pytest.mark.parametrize("key", [None, b"", b"k" * 31, b"k" * 4097])
def test_a_key_that_is_none_is_refused(tmp_path: Path, key: bytes | None) -> None:
    if key is not None:
        (tmp_path / "key").write_bytes(key)
        (tmp_path / "key").chmod(0o600)
    given = settings(state_path=tmp_path, state_hmac_key_file=tmp_path / "key")
    with pytest.raises(UsageError, match=r"^state\.hmac\.key\.file: "), state_folder_held(given):
        pass


def test_a_key_that_others_can_read_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"k" * 32)
    (tmp_path / "key").chmod(0o644)
    given = settings(state_path=tmp_path, state_hmac_key_file=tmp_path / "key")
    with pytest.raises(UsageError, match=r"^state\.hmac\.key\.file: other users .* \(mode 0644\); .* chmod 600"):
        state_of(given)


def test_a_key_without_a_file_to_seal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"set `state\.path`, or leave"):
        settings(state_hmac_key_file=tmp_path / "key")
