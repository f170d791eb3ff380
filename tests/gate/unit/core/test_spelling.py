import pytest

from app.core.spelling import did_you_mean, nearest

_KNOWN = ("export", "plan", "LITERAL")


def test_the_nearest_word_is_the_one_most_alike(subtests: pytest.Subtests) -> None:
    for word, meant in [
        ("exprot", "export"),
        ("EXPORT", "export"),
        ("litral", "LITERAL"),
        ("q", None),
        ("", None),
        ("x" * 9_999, None),
    ]:
        with subtests.test(word=word, meant=meant):
            assert nearest(word, _KNOWN) == meant
            assert did_you_mean(word, _KNOWN) == (f"; did you mean {meant}?" if meant else "")


def test_how_alike_is_enough_can_be_chosen() -> None:
    assert nearest("exp", _KNOWN, likeness=0.9) is None
    assert nearest("exp", _KNOWN, likeness=0.0) == "export"
