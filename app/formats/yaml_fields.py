"""What the readers of YAML resources ask of a mapping; what is wrong with it they add to a list of problems."""

from collections.abc import Sequence

from app.formats.acl_entries import MAX_SHOWN
from app.formats.yaml_documents import Fields, Items, Scalar, Value


def strange(within: Fields, known: Sequence[str]) -> list[str]:
    """A problem for each field that is not known: it may have been meant for one that is."""
    return [f"`{name[:MAX_SHOWN]}`: there is no such field; remove it" for name in within.fields if name not in known]


def is_given(within: Fields, name: str) -> bool:
    """Whether the field is there, and not null."""
    value = within.fields.get(name)
    return value is not None and not (isinstance(value, Scalar) and value.is_null)


def fields_of(within: Fields, name: str, problems: list[str]) -> Fields | None:
    """The mapping in this field, or a problem more."""
    value = within.fields.get(name)
    if isinstance(value, Fields):
        return value
    problems.append(
        f"`{name}`: the field is missing" if value is None else f"`{name}`: not a mapping; write its fields"
    )
    return None


def items_of(within: Fields, name: str, problems: list[str]) -> list[Value]:
    """The items of the list in this field, none if it is not given, or a problem more."""
    if not is_given(within, name):
        return []
    value = within.fields[name]
    if isinstance(value, Items):
        return value.items
    problems.append(f"`{name}`: not a list; write one")
    return []


def text_of(within: Fields, name: str, problems: list[str], default: str | None = None) -> str:
    """The text in this field, or the default if it is not there, or a problem more."""
    value = within.fields.get(name)
    if value is None and default is not None:
        return default
    if value is None:
        problems.append(f"`{name}`: the field is missing")
        return ""
    if not isinstance(value, Scalar) or not value.is_text:
        problems.append(f"`{name}`: the value is not text; write it in quotes")
        return ""
    return value.text


def texts_of(within: Fields, name: str, problems: list[str]) -> list[str]:
    """The texts of the list in this field, one at least, or a problem more."""
    listed = within.fields.get(name)
    if not isinstance(listed, Items) or not listed.items:
        problems.append(f"`{name}`: the list is missing, or empty")
        return []
    texts = [each.text for each in listed.items if isinstance(each, Scalar) and each.is_text]
    if len(texts) != len(listed.items):
        problems.append(f"`{name}`: an entry that is no text; write words such as Read")
    return texts
