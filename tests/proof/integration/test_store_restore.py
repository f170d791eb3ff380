"""`klamm restore` of an embedded store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.entry_point import main
from tests.postgres import new_folder
from tests.surroundings import of_a_command


@pytest.fixture
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    with of_a_command(monkeypatch, tmp_path):
        yield monkeypatch


def test_the_embedded_store_is_restored_as_well(
    tmp_path: Path, surroundings: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = new_folder(tmp_path / "data")
    surroundings.setenv("KLAMM_CLUSTER_ID", "laptop")
    assert main(["restore", "--data-dir", str(data)]) == 0
    assert capsys.readouterr().out.startswith("cluster laptop: epoch ")
