"""Tables of cases: all are tried, and what fails says in which of them."""

import inspect

import pytest

from tests.cases import each_case


async def test_all_are_tried_and_the_failing_one_is_named() -> None:
    tried: list[tuple[str, int, str]] = []

    @each_case("path", ["/a", "/b"])
    @each_case(("number", "word"), [(1, "one"), (2, "two")])
    async def try_one(service: str, path: str, number: int, word: str) -> None:
        tried.append((path, number, word))
        assert (service, path, number) != ("it", "/b", 1), "that one"

    assert list(inspect.signature(try_one).parameters) == ["service"]
    with pytest.raises(AssertionError, match="that one") as failed:
        await try_one(service="it")
    assert failed.value.__notes__ == ["in the case number=1, word='one'", "in the case path='/b'"]
    await try_one(service="another")
    assert tried == [
        *[("/a", 1, "one"), ("/a", 2, "two"), ("/b", 1, "one")],
        *[(path, number, word) for path in ("/a", "/b") for number, word in ((1, "one"), (2, "two"))],
    ]


def test_a_table_without_cases_is_refused() -> None:
    with pytest.raises(AssertionError, match="no case"):
        each_case("path", [])
