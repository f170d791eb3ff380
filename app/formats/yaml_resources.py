"""Resources in YAML (kind, apiVersion, metadata, spec), as Kubernetes and Jikkou have them, and their fields."""

from collections.abc import Callable, Iterator, Sequence

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation
from app.formats.acl_entries import MAX_SHOWN, Entry, acl_of
from app.formats.lines import TextFault
from app.formats.source import Source
from app.formats.yaml_documents import Fields, Items, Value, fields_of, is_null, is_text, line_of

EntriesOf = Callable[["Part", str, str], Iterator[Entry]]
RuleOf = Callable[["Part"], Iterator[Entry]]


def read_resources(source: Source, entries_of: EntriesOf, *, kind: str, lists: Sequence[str]) -> Iterator[Entry]:
    """The ACLs of every resource of a file, also of those in a list; `kind` is what should be there."""
    try:
        for document in source.documents():
            if is_null(document):
                continue
            for resource in _unlisted(document, lists):
                if isinstance(resource, Fields):
                    whole = Part(resource)
                    found, version = whole.text("kind"), whole.text("apiVersion")
                    yield from [(whole.line, whole.problems)] if whole.problems else entries_of(whole, found, version)
                elif isinstance(resource, tuple):
                    yield resource
                else:
                    yield line_of(resource), [f"not a resource; write a {kind}"]
    except TextFault as fault:
        yield fault.line, [str(fault)]


def _unlisted(document: Value, lists: Sequence[str]) -> Iterator[Value | Entry]:
    if not _is_list(document, lists):
        yield document
    elif not isinstance(document, Fields) or not isinstance(items := fields_of(document).get("items"), Items):
        yield line_of(document), ["`items`: the field is missing, or not a list"]
    else:
        for item in items.value:
            # A list in a list could nest without end.
            yield (line_of(item), ["a list within a list; give its items"]) if _is_list(item, lists) else item


def _is_list(value: Value, lists: Sequence[str]) -> bool:
    kind = fields_of(value).get("kind") if isinstance(value, Fields) else None
    return kind is not None and kind.value in lists


def by_rule(bindings: Sequence[AclBinding]) -> list[list[AclBinding]]:
    """The bindings in groups that differ by operation only, each group in the place of its first."""
    rules: dict[AclBinding, list[AclBinding]] = {}
    for each in bindings:
        rules.setdefault(each._replace(operation=AclOperation.ANY), []).append(each)
    return list(rules.values())


def rules_in(resource: "Part", rules: Sequence[Value], acls_of: RuleOf, expected: str) -> Iterator[Entry]:
    """The ACLs of a resource's rules, or what is wrong with the resource itself."""
    if resource.problems:
        yield resource.line, resource.problems
        return
    for rule in rules:
        if isinstance(rule, Fields):
            yield from acls_of(Part(rule))
        else:
            yield line_of(rule), [f"`acls`: an entry is not a rule; write {expected}"]


class Part:
    """A mapping whose fields are read one by one; what is wrong with one is added to the problems of the whole."""

    def __init__(self, fields: Fields, problems: list[str] | None = None) -> None:
        self.line = line_of(fields)
        self.problems: list[str] = [] if problems is None else problems
        self._fields = fields_of(fields)

    def allows_only(self, *known: str) -> None:
        self.problems += [
            f"`{name[:MAX_SHOWN]}`: there is no such field; remove it" for name in self._fields if name not in known
        ]

    def has(self, name: str) -> bool:
        """Whether the field is there, and not null."""
        value = self._fields.get(name)
        return value is not None and not is_null(value)

    def value(self, name: str) -> Value | None:
        return self._fields.get(name)

    def part(self, name: str) -> "Part | None":
        value = self._fields.get(name)
        if isinstance(value, Fields):
            return Part(value, self.problems)
        self.problems.append(
            f"`{name}`: the field is missing" if value is None else f"`{name}`: not a mapping; write its fields"
        )
        return None

    def items(self, name: str) -> list[Value]:
        if not self.has(name):
            return []
        value = self._fields[name]
        if isinstance(value, Items):
            items: list[Value] = value.value
            return items
        self.problems.append(f"`{name}`: not a list; write one")
        return []

    def text(self, name: str, default: str | None = None) -> str:
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        if value is None:
            self.problems.append(f"`{name}`: the field is missing")
        elif is_text(value):
            return str(value.value)
        else:
            self.problems.append(f"`{name}`: the value is not text; write it in quotes")
        return ""

    def texts(self, name: str) -> list[str]:
        listed = self._fields.get(name)
        if not isinstance(listed, Items) or not listed.value:
            self.problems.append(f"`{name}`: the list is missing, or empty")
            return []
        texts = [each.value for each in listed.value if is_text(each)]
        if len(texts) != len(listed.value):
            self.problems.append(f"`{name}`: an entry is not text; write words such as Read")
        return texts

    def entries(self, operations: Sequence[str], **fields: str) -> Iterator[Entry]:
        """An ACL for each operation, of a rule that has been read; or its problems."""
        if self.problems:
            yield self.line, self.problems
            return
        for operation in operations:
            yield self.line, acl_of(operation=operation, **fields)
