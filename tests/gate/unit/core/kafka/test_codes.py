import pytest

from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType

Words = type[ResourceType] | type[PatternType] | type[AclOperation] | type[AclPermissionType]
ALL_WORDS: list[Words] = [ResourceType, PatternType, AclOperation, AclPermissionType]


@pytest.mark.parametrize("words", ALL_WORDS)
def test_every_code_and_word_reads_back(words: Words) -> None:
    for member in words:
        assert words.from_code(int(member)) is member
        assert words.from_string(member.name) is member


def test_a_code_from_the_future_is_unknown(subtests: pytest.Subtests) -> None:
    for words in ALL_WORDS:
        for code in [-1, 16, 100, 2**40]:
            with subtests.test(words=words, code=code):
                assert words.from_code(code) is words(0)
                assert words(0).name == "UNKNOWN"


def test_a_word_from_the_future_is_unknown(subtests: pytest.Subtests) -> None:
    for words in ALL_WORDS:
        for word in ["", "any", "Any", " ANY", "ANY ", "from_code", "__class__"]:
            with subtests.test(words=words, word=word):
                assert words.from_string(word).name == "UNKNOWN"
