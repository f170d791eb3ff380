"""Resources in YAML (kind, apiVersion, metadata, spec), as Kubernetes and Jikkou have them, and their fields.

The functions that read a field add what is wrong with it to a list of problems.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import IO

from app.core.kafka.bindings import AclBinding
from app.formats.acl_entries import MAX_SHOWN, Entry, binding_of
from app.formats.yaml_documents import Fields, Items, Scalar, Value, YamlFault, read_documents

EntriesOf = Callable[[Fields, str, str], Iterator[Entry]]


def read_resources(stream: IO[bytes], entries_of: EntriesOf, *, kind: str, lists: Sequence[str]) -> Iterator[Entry]:
    """The ACLs of every resource of a file, also of those in a list; `kind` is what should be there."""
    try:
        for document in read_documents(stream):
            if isinstance(document, Scalar) and document.is_null:
                continue
            for resource in _unlisted(document, lists):
                if isinstance(resource, Fields):
                    problems: list[str] = []
                    found, version = (text_of(resource, name, problems) for name in ("kind", "apiVersion"))
                    yield from [(resource.line, problems)] if problems else entries_of(resource, found, version)
                elif isinstance(resource, tuple):
                    yield resource
                else:
                    yield resource.line, [f"not a resource; write a {kind}"]
    except YamlFault as fault:
        yield fault.line, [str(fault)]


def _unlisted(document: Value, lists: Sequence[str]) -> Iterator[Value | Entry]:
    if not _is_list(document, lists):
        yield document
    elif not isinstance(document, Fields) or not isinstance(items := document.fields.get("items"), Items):
        yield document.line, ["`items`: the field is missing, or no list"]
    else:
        for item in items.items:
            # A list in a list could nest without end.
            yield (item.line, ["a list within a list; give its items"]) if _is_list(item, lists) else item


def _is_list(value: Value, lists: Sequence[str]) -> bool:
    kind = value.fields.get("kind") if isinstance(value, Fields) else None
    return isinstance(kind, Scalar) and kind.text in lists


def rule_entries(line: int, problems: Sequence[str], operations: Sequence[str], **fields: str) -> Iterator[Entry]:
    if problems:
        yield line, problems
        return
    for operation in operations:
        found: AclBinding | list[str] = binding_of(operation=operation, **fields)
        yield line, found


def strange(within: Fields, known: Sequence[str]) -> list[str]:
    return [f"`{name[:MAX_SHOWN]}`: there is no such field; remove it" for name in within.fields if name not in known]


def is_given(within: Fields, name: str) -> bool:
    value = within.fields.get(name)
    return value is not None and not (isinstance(value, Scalar) and value.is_null)


def fields_of(within: Fields, name: str, problems: list[str]) -> Fields | None:
    value = within.fields.get(name)
    if isinstance(value, Fields):
        return value
    problems.append(
        f"`{name}`: the field is missing" if value is None else f"`{name}`: not a mapping; write its fields"
    )
    return None


def items_of(within: Fields, name: str, problems: list[str]) -> list[Value]:
    if not is_given(within, name):
        return []
    value = within.fields[name]
    if isinstance(value, Items):
        return value.items
    problems.append(f"`{name}`: not a list; write one")
    return []


def text_of(within: Fields, name: str, problems: list[str], default: str | None = None) -> str:
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
    listed = within.fields.get(name)
    if not isinstance(listed, Items) or not listed.items:
        problems.append(f"`{name}`: the list is missing, or empty")
        return []
    texts = [each.text for each in listed.items if isinstance(each, Scalar) and each.is_text]
    if len(texts) != len(listed.items):
        problems.append(f"`{name}`: an entry that is no text; write words such as Read")
    return texts
