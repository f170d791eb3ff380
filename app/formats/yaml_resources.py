"""Fields of a mapping, read one by one."""

from app.formats.acl_entries import MAX_SHOWN
from app.formats.yaml_documents import Fields, Items, Value, fields_of, is_null, is_text, line_of


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
