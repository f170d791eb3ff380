"""Which faults a file can have, and how a seed draws them."""

from pathlib import Path

import pytest

from tests.campaign.code_faults import draw_faults, faults_of

_PACKAGES = ["app/core", "app/store"]


def _changes(folder: Path, code: str) -> set[tuple[str, str]]:
    (folder / "it.py").write_text(code)
    return {(fault.kind, fault.change) for fault in faults_of(folder, "it.py")}


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("a < b", ("comparison", "< -> <=")),
        ("(a) <= (b)", ("comparison", "<= -> <")),
        ("a not  in b", ("comparison", "not in -> in")),
        ("'<' is not x", ("comparison", "is not -> is")),
        ("a == 3", ("bound", "3 -> 4")),
        ("a[1:]", ("bound", "1 -> 2")),
        ("n + 1", ("bound", "1 -> 2")),
        ("min(n, 10)", ("bound", "10 -> 11")),
        ("_LARGEST = 1_000", ("bound", "1_000 -> 1001")),
        ("if a: pass", ("branch", "a -> False")),
        ("while a: pass", ("branch", "a -> not (a)")),
        ("x = 1 if a else 2", ("branch", "a -> True")),
        ("a and b", ("branch", "and -> or")),
        ("f(a, b)", ("argument", "a, b -> b, a")),
        ("f(x, strict=True)", ("argument", "True -> False")),
        ('"ä" if f("ö", b) else c', ("argument", '"ö", b -> b, "ö"')),
    ],
)
def test_what_can_be_changed(tmp_path: Path, code: str, change: tuple[str, str]) -> None:
    assert change in _changes(tmp_path, code)


@pytest.mark.parametrize(
    "code",
    [
        "x: list[1] = y",
        "@dataclass(frozen=True)\nclass A: pass",
        "x = f'{a < b}'",
        "if TYPE_CHECKING:\n    import a",
        "'a < b'",
        "log.info('a', b)",
        "f(a, a)",
    ],
)
def test_what_decides_nothing_is_left_alone(tmp_path: Path, code: str) -> None:
    assert _changes(tmp_path, code) == set()


def test_a_fault_changes_its_place_alone(tmp_path: Path) -> None:
    (tmp_path / "it.py").write_text('ä = "ü"; b = c < d  # <\n')
    (fault,) = faults_of(tmp_path, "it.py")
    assert (fault.line, fault.name) == (1, "it.py:1:16:comparison")
    source = (tmp_path / "it.py").read_bytes()
    assert fault.apply(source).decode() == 'ä = "ü"; b = c <= d  # <\n'
    with pytest.raises(ValueError, match="has changed"):
        fault.apply(source.replace(b"c", b"long"))


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for package in _PACKAGES:
        (tmp_path / package).mkdir(parents=True)
        code = "".join(f"def f{n}(a, b):\n    return a < {n} and g(b, a)\n" for n in range(9))
        (tmp_path / package / "it.py").write_text(code)
    return [f"{package}/it.py" for package in _PACKAGES]


def test_a_seed_draws_the_same_and_another_one_others(tmp_path: Path, files: list[str]) -> None:
    drawn = draw_faults(tmp_path, files, _PACKAGES, 11, 7)
    assert draw_faults(tmp_path, files[::-1], _PACKAGES, 11, 7) == drawn
    assert draw_faults(tmp_path, files, _PACKAGES, 11, 8) != drawn
    assert [fault.path for fault in drawn] == ["app/core/it.py"] * 6 + ["app/store/it.py"] * 5
    assert len({fault.name for fault in drawn}) == 11


def test_another_is_drawn_for_an_equivalent_one_and_the_others_stay(tmp_path: Path, files: list[str]) -> None:
    drawn = draw_faults(tmp_path, files, _PACKAGES, 10, 7)
    again = draw_faults(tmp_path, files, _PACKAGES, 10, 7, [drawn[2].name])
    assert again[:4] == [*drawn[:2], *drawn[3:5]]
    assert again[5:] == drawn[5:]
    assert again[4] not in drawn


def test_what_can_not_be_drawn_is_said(tmp_path: Path, files: list[str]) -> None:
    with pytest.raises(ValueError, match="not drawn by this seed: nowhere"):
        draw_faults(tmp_path, files, _PACKAGES, 10, 7, ["nowhere"])
    with pytest.raises(ValueError, match="app/rest has no 5 places"):
        draw_faults(tmp_path, files, ["app/rest"], 5, 7)
