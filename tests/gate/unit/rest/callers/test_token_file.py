import stat
from pathlib import Path

import pytest

from app.formats.command_errors import UsageError
from app.rest.callers.token_file import add_token, hash_of, read_tokens, retire_tokens

CALLERS = ("orders", "platform")
HASH = "a" * 64


def test_a_token_is_told_once_and_kept_as_a_hash(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    token = add_token(path, "orders", CALLERS)
    assert len(token) >= 43
    assert token not in path.read_text()
    assert read_tokens(path, CALLERS) == {hash_of(token.encode()): "orders"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_tokens_live_at_once_and_a_third_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    old, new = add_token(path, "orders", CALLERS), add_token(path, "orders", CALLERS)
    before = path.read_text()
    with pytest.raises(UsageError, match="--retire"):
        add_token(path, "orders", CALLERS)
    assert path.read_text() == before
    assert set(read_tokens(path, CALLERS)) == {hash_of(old.encode()), hash_of(new.encode())}


def test_retiring_leaves_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    add_token(path, "orders", CALLERS)
    new, other = add_token(path, "orders", CALLERS), add_token(path, "platform", CALLERS)
    assert retire_tokens(path, "orders", CALLERS) == 1
    assert read_tokens(path, CALLERS) == {hash_of(new.encode()): "orders", hash_of(other.encode()): "platform"}
    assert retire_tokens(path, "orders", CALLERS) == 0


def test_remarks_and_the_files_mode_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"# the shop\n\norders sha256:{HASH}   # since May\n")
    path.chmod(0o640)
    add_token(path, "orders", CALLERS)
    assert path.read_text().startswith(f"# the shop\n\norders sha256:{HASH}   # since May\norders sha256:")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert len(read_tokens(path, CALLERS)) == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("orders", "line 1: expected"),
        (f"orders {HASH}", "line 1: expected"),
        (f"orders sha256:{HASH[:-1]}", "line 1: expected"),
        (f"orders sha256:{HASH.upper()}", "line 1: expected"),
        (f"orders sha256:{HASH} x", "line 1: expected"),
        (f"\nnobody sha256:{HASH}", "line 2: there is no table `callers.nobody`"),
        (f"orders sha256:{HASH}\nplatform sha256:{HASH}", "line 2: the same token"),
        ("".join(f"orders sha256:{digit * 64}\n" for digit in "abc"), "line 3: `orders` has 2 live tokens"),
    ],
)
def test_a_line_that_means_nothing_refuses_the_file(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    with pytest.raises(UsageError) as refusal:
        read_tokens(path, CALLERS)
    assert why in str(refusal.value)
    assert HASH not in str(refusal.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"#" * 1_048_577])
def test_what_is_no_text_or_too_much_refuses_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        read_tokens(path, CALLERS)


@pytest.mark.parametrize("broken", ["orders sha256:oops", f"nobody sha256:{HASH}", "# fine\nplatform"])
def test_a_broken_line_keeps_every_token_in_force(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "tokens"
    add_token(path, "orders", CALLERS)
    with path.open("a") as file:
        file.write(f"{broken}\n")
    before = path.read_text()
    number = 1 + len(broken.splitlines())
    for change in (add_token, retire_tokens):
        with pytest.raises(UsageError, match=f"line {number}: "):
            change(path, "orders", CALLERS)
        assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_said_of_a_caller_in_a_remark_is_no_token(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"orders sha256:{HASH}#of May\n# orders sha256:{'b' * 64}\n")
    assert retire_tokens(path, "orders", CALLERS) == 0
    assert set(read_tokens(path, CALLERS).values()) == {"orders"}


@pytest.mark.parametrize("target_is", ["there", "missing"])
def test_a_link_to_the_file_stays_a_link(tmp_path: Path, target_is: str) -> None:
    path, target = tmp_path / "tokens", tmp_path / "elsewhere" / "real"
    target.parent.mkdir()
    path.symlink_to(Path("elsewhere") / "real")
    if target_is == "there":
        target.write_text("")
    token = add_token(path, "orders", CALLERS)
    assert path.is_symlink()
    assert not target.is_symlink()
    assert read_tokens(target, CALLERS) == read_tokens(path, CALLERS) == {hash_of(token.encode()): "orders"}


def test_a_file_that_is_not_there_is_no_empty_one(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"does not exist; create it with `klamm token NAME` \(an empty file is enough"
    ):
        read_tokens(tmp_path / "tokens", CALLERS)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be written; create its folder first: "):
        add_token(tmp_path / "nowhere" / "tokens", "orders", CALLERS)


def test_what_an_interrupted_change_left_is_no_hindrance(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    (tmp_path / "tokens.new").write_text("half a li")
    add_token(path, "orders", CALLERS)
    assert len(read_tokens(path, CALLERS)) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_others_can_change_is_refused_and_not_added_to(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    add_token(path, "orders", CALLERS)
    path.chmod(0o666)
    before = path.read_text()
    for refused in (read_tokens, lambda *words: add_token(words[0], "orders", words[1])):
        with pytest.raises(UsageError, match=r"other users can change `.*tokens` \(mode 0666\); .* chmod go-w"):
            refused(path, CALLERS)
    assert path.read_text() == before
    path.chmod(0o644)
    assert len(read_tokens(path, CALLERS)) == 1
