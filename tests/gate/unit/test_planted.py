"""What was said is held against planted secrets."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.planted import PlantedSecrets


@pytest.fixture
def planted() -> Iterator[PlantedSecrets]:
    """A run's secrets, with one of them."""
    with closing(PlantedSecrets()) as planted:
        planted.plant("a-token-in-the-coal-mine")
        yield planted


def test_a_word_is_no_secret(planted: PlantedSecrets) -> None:
    with pytest.raises(ValueError, match="8 characters"):
        planted.plant("klamm")


def test_what_is_said_after_a_look_is_seen_by_the_next_and_told_once(planted: PlantedSecrets) -> None:
    planted.hear("nothing\n")
    assert planted.leaks(everything=False) == []
    planted.hear("a-token-in-the-coal-mine\n")
    assert len(planted.leaks(everything=False)) == 1
    assert planted.leaks(everything=False) == planted.leaks(everything=True) == []


def test_the_last_look_sees_what_was_said_before_the_secret_was_planted(planted: PlantedSecrets) -> None:
    planted.hear("a canary @ the mine, canary%40the-mine")
    assert planted.leaks(everything=False) == []
    planted.plant("canary@the-mine")
    planted.hear("more")
    assert planted.leaks(everything=False) == []
    [leak] = planted.leaks(everything=True)
    assert leak.endswith(": a canary @ the mine, <<<the secret>>>")


def test_no_jwt_needs_to_be_planted(planted: PlantedSecrets) -> None:
    planted.hear('{"why": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2ln is refused"}\nkeyJar.eyJ and eyJ.a.b')
    [leak] = planted.leaks(everything=False)
    assert "a JWT was said in" in leak
    assert "eyJhbGci" not in leak


def test_odd_output_is_kept_too(planted: PlantedSecrets) -> None:
    planted.hear("\udcff a-token-in-the-coal-mine\r\x85 and more\u2028")
    assert len(planted.leaks(everything=False)) == 1
