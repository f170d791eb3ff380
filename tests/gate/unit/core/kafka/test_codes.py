import pytest

from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from tests.cases import each_case

Words = type[ResourceType] | type[PatternType] | type[AclOperation] | type[AclPermissionType]
ALL_WORDS: list[Words] = [ResourceType, PatternType, AclOperation, AclPermissionType]


@pytest.mark.parametrize("words", ALL_WORDS)
def test_every_code_and_word_reads_back(words: Words) -> None:
    for member in words:
        assert words.from_code(int(member)) is member
        assert words.from_string(member.name) is member


@each_case("words", ALL_WORDS)
@each_case("code", [-1, 16, 100, 2**40])
def test_a_code_from_the_future_is_unknown(words: Words, code: int) -> None:
    assert words.from_code(code) is words(0)
    assert words(0).name == "UNKNOWN"


@each_case("words", ALL_WORDS)
@each_case("word", ["", "any", "Any", " ANY", "ANY ", "from_code", "__class__"])
def test_a_word_from_the_future_is_unknown(words: Words, word: str) -> None:
    assert words.from_string(word).name == "UNKNOWN"
