"""The user ids that PostgreSQL may run under if root serves: folders of earlier versions belong to them."""

from pathlib import Path

from app.store.embedded.process import OWN_IDS

_DOCS = Path(__file__).parents[5] / "docs" / "operations.md"


def test_the_first_id_is_the_one_that_operators_are_told_and_all_of_earlier_versions_stay() -> None:
    said = " ".join(_DOCS.read_text("utf-8").split())
    assert f"under a user id of its own: {OWN_IDS[0]}, or the next one that has no account" in said
    assert range(60_706, 61_184) == OWN_IDS
