"""`--group` of klamm why and klamm what."""

import argparse

import pytest

from app.client.groups import add_group_argument, groups_body, groups_given, with_groups
from app.formats.command_errors import UsageError


def given(*words: str) -> tuple[str, ...]:
    parser = argparse.ArgumentParser()
    add_group_argument(parser)
    return groups_given(parser.parse_args(words))


def test_groups_are_named_one_by_one() -> None:
    assert given() == ()
    assert given("--group", "pii", "--group", "eng-data", "--group", "pii") == ("eng-data", "pii")
    assert groups_body(()) == {}
    assert groups_body(("a", "b")) == {"groups": ["a", "b"]}
    assert with_groups("User:bob", ()) == "User:bob"
    assert with_groups("User:bob", ("a", "b")) == "User:bob (in a, b)"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--group", ""], "1 to 255 characters"),
        (["--group", "x" * 256], "1 to 255 characters"),
        (["--group", "Group:pii"], "leave out `Group:`"),
        (["--group", "a\udcff"], "not UTF-8"),
        ([word for at in range(201) for word in ("--group", f"g{at}")], "201 groups are too many; name 200 at most"),
    ],
)
def test_what_is_no_group_is_refused(words: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        given(*words)
