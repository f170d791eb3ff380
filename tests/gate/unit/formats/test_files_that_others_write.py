"""Files that say who may do what are refused where others can change them."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.formats.command_errors import UsageError
from app.formats.secret_files import others_may_write, refuse_if_writable

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
STRANGER = 4711


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "klamm.toml"
    path.write_text("")
    path.chmod(0o644)
    return path


def check(path: Path) -> None:
    with path.open("rb") as file:
        refuse_if_writable(file, path)


def test_its_owner_and_the_own_group_may_write(subtests: pytest.Subtests, path: Path) -> None:
    for mode in [0o600, 0o400, 0o644, 0o640, 0o755, 0o660, 0o664]:
        with subtests.test(mode=mode):
            path.chmod(mode)
            check(path)


def test_a_file_that_everybody_may_write_is_refused_with_the_way_out(subtests: pytest.Subtests, path: Path) -> None:
    for mode in [0o666, 0o602, 0o646, 0o777]:
        with subtests.test(mode=mode):
            path.chmod(mode)
            with pytest.raises(UsageError) as refused:
                check(path)
            assert str(refused.value) == (
                f"other users can change `{path}` (mode {mode:04o}); take that permission away: chmod go-w"
            )


@as_root
def test_another_group_may_read_but_not_write(path: Path) -> None:
    os.chown(path, -1, STRANGER)
    path.chmod(0o640)
    check(path)
    path.chmod(0o660)
    with pytest.raises(UsageError, match=r"mode 0660.*chmod go-w"):
        check(path)
    assert others_may_write(path.stat())


@as_root
def test_a_file_of_another_user_is_refused(path: Path) -> None:
    os.chown(path, STRANGER, -1)
    path.chmod(0o600)
    with pytest.raises(UsageError, match=rf"belongs to user id {STRANGER}, who can change it.*chown.*read-only"):
        check(path)


def test_a_file_of_root_is_anybodys(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with path.open("rb") as file, monkeypatch.context() as patch:
        patch.setattr(os, "fstat", lambda _: SimpleNamespace(st_mode=0o100664, st_uid=0, st_gid=0))
        patch.setattr(os, "geteuid", lambda: 10_001)
        refuse_if_writable(file, path)


def test_modes_and_owners_count_for_nothing_on_a_read_only_mount(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kubernetes and Docker mount secrets and configurations."""
    path.chmod(0o666)
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    check(path)


def test_a_link_is_what_it_leads_to(path: Path) -> None:
    """As the kubelet does it, whose links have mode 0777."""
    folder = path.parent / "..2026_11_27"
    folder.mkdir()
    target = path.rename(folder / "klamm.toml")
    (path.parent / "..data").symlink_to(folder.name)
    path.symlink_to("..data/klamm.toml")
    check(path)
    target.chmod(0o666)
    with pytest.raises(UsageError, match="chmod go-w"):
        check(path)


def test_a_pipe_keeps_nothing() -> None:
    reading, writing = os.pipe()
    try:
        os.fchmod(writing, 0o666)
        with os.fdopen(reading, "rb") as file:
            refuse_if_writable(file, Path("/dev/fd/3"))
    finally:
        os.close(writing)
