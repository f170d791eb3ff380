"""Kafka's words as other tools spell them."""

from collections.abc import Mapping

from app.core.kafka.codes import CODED_FIELDS, KafkaCode
from app.formats.acl_entries import MAX_SHOWN, VAGUE


def spellings(words: type[KafkaCode], *, up_to: int | None = None) -> dict[str, str]:
    """Kafka's words for what an ACL may hold, by their camel case; other tools know the codes `up_to` one only."""
    known = (each for each in words if up_to is None or each <= up_to)
    return {each.camel_case: each.name for each in known if each.name not in VAGUE}


def loosely(words: type[KafkaCode], text: str) -> str:
    """The word in Kafka's spelling if only case and underscores differ; otherwise the text unchanged."""
    word = _LOOSE[words].get(text.strip(" ").replace("_", "").lower()) if text.isascii() else None
    return text if word is None else word


def is_word(words: type[KafkaCode], text: str) -> bool:
    word = loosely(words, text)
    return word in words.__members__ and word not in VAGUE


def word_of(field: str, text: str, known: Mapping[str, str], problems: list[str]) -> str:
    word = known.get(text)
    if word is None:
        problems.append(f"`{field}`: `{text[:MAX_SHOWN]}` is not one of its values; write one of {', '.join(known)}")
        return ""
    return word


_LOOSE: dict[type[KafkaCode], dict[str, str]] = {
    words: {name.replace("_", "").lower(): name for name in words.__members__} for words in CODED_FIELDS.values()
}
