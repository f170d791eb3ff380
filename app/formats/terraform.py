"""Resources `kafka_acl` of Terraform's Kafka provider (Mongey/kafka), in Terraform's JSON (`.tf.json`).

HCL is not read: what a variable, a module, `count` or `for_each` makes of it, only Terraform can tell, and
`terraform show -json` does. The provider's words are its own: Topic, TransactionalID, Literal, DescribeConfigs. It has
no delegation tokens, no users, and none of the operations on them.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.acl_entries import MAX_SHOWN, Entry, FormatLimitError, Problem, acl_of
from app.formats.json_walk import JsonWalk, Pairs
from app.formats.quoting import json_quoted
from app.formats.reading import Reading
from app.formats.source import Outline, Source
from app.formats.words import spellings, word_of

KIND = "kafka_acl"

_OPERATIONS = spellings(AclOperation, up_to=AclOperation.IDEMPOTENT_WRITE)
_RESOURCE_TYPES = {"Topic": "TOPIC", "Group": "GROUP", "Cluster": "CLUSTER", "TransactionalID": "TRANSACTIONAL_ID"}
_PATTERN_TYPES = spellings(PatternType)
_PERMISSION_TYPES = spellings(AclPermissionType)

_TEXTS = ("resource_name", "acl_principal", "acl_host")
_WORDS: Mapping[str, Mapping[str, str]] = {
    "resource_type": _RESOURCE_TYPES,
    "resource_pattern_type_filter": _PATTERN_TYPES,
    "acl_operation": _OPERATIONS,
    "acl_permission_type": _PERMISSION_TYPES,
}
_OPTIONAL = "resource_pattern_type_filter"
_DEFAULT_PATTERN = "Literal"
_ABOUT = ("provider", "depends_on", "lifecycle")
"""What Terraform allows in any resource; it says nothing about the ACL."""
_MANY = ("count", "for_each")
_MODULE = (
    f"`module`: it may hold `{KIND}` resources, which only Terraform can tell; give what `terraform show -json` prints"
)
_HCL = "HCL, which only Terraform can evaluate; give what `terraform show -json` prints, or write it as .tf.json"

_HCL_BEGINS = re.compile(
    rb"^[ \t]*(?:resource|provider|terraform|variable|locals|module|data|output|moved|import)[ \t]*[\"{]", re.MULTILINE
)
_TOP = ("resource", "provider", "terraform", "variable", "locals", "module", "output", "format_version", "values")
_TEMPLATE = re.compile(r"(\$+|%+)\{")
_SIGN = re.compile(r"[$%](?=\{)")
_NO_SLUG = re.compile(r"[^a-z0-9]+")
_MAX_SLUG = 40


def is_hcl(head: bytes) -> bool:
    return _HCL_BEGINS.search(head) is not None


def is_terraform(outline: Outline) -> bool:
    return not outline.is_list and (outline.has(*_TOP) or outline.has("data", kind="{"))


def read_terraform(source: Source, _: Reading) -> Iterator[Entry]:
    """The ACLs of a `.tf.json`, or of a state or plan as `terraform show -json` prints it. HCL is refused."""
    if source.is_json:
        yield from _entries(source.json())
    else:
        yield 1, [Problem(_HCL)]


def write_terraform(bindings: Sequence[AclBinding], out: TextIO) -> None:
    """A `.tf.json` with a resource for each ACL, which keeps its name whatever comes and goes beside it."""
    for binding in bindings:
        _check(binding)
    out.write('{"resource": {"kafka_acl": {')
    between = ""
    for binding in dict.fromkeys(bindings):
        fields = {
            "resource_name": _quoted(binding.resource_name),
            "resource_type": f'"{_RESOURCE_WORDS[binding.resource_type]}"',
            "resource_pattern_type_filter": f'"{_PATTERN_WORDS[binding.pattern_type]}"',
            "acl_principal": _quoted(binding.principal),
            "acl_host": _quoted(binding.host),
            "acl_operation": f'"{_OPERATION_WORDS[binding.operation]}"',
            "acl_permission_type": f'"{_PERMISSION_WORDS[binding.permission_type]}"',
        }
        lines = ",".join(f'\n    "{name}": {value}' for name, value in fields.items())
        out.write(f'{between}\n  "{resource_label(binding)}": {{{lines}\n  }}')
        between = ","
    out.write("\n}}}\n")


def resource_label(binding: AclBinding) -> str:
    """A name for the resource: something to read, and 64 bits of the ACL's own hash."""
    text = f"{binding.principal}_{binding.operation.name}_{binding.resource_name}".lower()
    slug = _NO_SLUG.sub("_", text)[:_MAX_SLUG].strip("_")
    return f"acl_{slug}_{binding.natural_key[:8].hex()}"


_RESOURCE_WORDS = {ResourceType[name]: word for word, name in _RESOURCE_TYPES.items()}
_PATTERN_WORDS = {PatternType[name]: word for word, name in _PATTERN_TYPES.items()}
_OPERATION_WORDS = {AclOperation[name]: word for word, name in _OPERATIONS.items()}
_PERMISSION_WORDS = {AclPermissionType[name]: word for word, name in _PERMISSION_TYPES.items()}


def _check(binding: AclBinding) -> None:
    if binding.resource_type not in _RESOURCE_WORDS:
        raise FormatLimitError(binding, f"Terraform's Kafka provider has no ACLs on {binding.resource_type.name}")
    if binding.operation not in _OPERATION_WORDS:
        raise FormatLimitError(binding, f"Terraform's Kafka provider has no operation {binding.operation.name}")
    for text in (binding.resource_name, binding.principal, binding.host):
        if not unicodedata.is_normalized("NFC", text):
            raise FormatLimitError(binding, "Terraform changes texts that are not in Unicode's normal form C")


def _quoted(text: str) -> str:
    """The text as Terraform's JSON, in which `${` and `%{` begin a template and `$${` and `%%{` don't."""
    return _SIGN.sub(r"\g<0>\g<0>", json_quoted(text))


def _refuse_kind(kind: str) -> list[str]:
    if "acl" not in kind or not ("kafka" in kind or "redpanda" in kind):
        return []
    return [f"`{kind[:MAX_SHOWN]}`: only resources of type `{KIND}` are read; write its ACL as one, or leave it out"]


def _acl(given: Sequence[tuple[str, object]]) -> NewAcl | list[str]:
    problems: list[str] = []
    texts: dict[str, str] = {}
    for field, value in given:
        if field in _MANY:
            problems.append(f"`{field}`: only Terraform can tell how many ACLs that makes; write each one out")
        elif field not in (*_TEXTS, *_WORDS, *_ABOUT):
            problems.append(f"`{field[:MAX_SHOWN]}`: there is no such field; remove it")
        elif field in texts:
            problems.append(f"`{field}`: the field comes more than once; write it once")
        elif field not in _ABOUT and not isinstance(value, str):
            problems.append(f"`{field}`: only a text in quotes can be read; write it out")
            texts[field] = ""
        elif isinstance(value, str):
            texts[field] = value
    texts.setdefault(_OPTIONAL, _DEFAULT_PATTERN)
    problems += [f"`{each}`: the field is missing" for each in (*_TEXTS, *_WORDS) if each not in texts]
    if problems:
        return problems
    words = {field: word_of(field, texts[field], known, problems) for field, known in _WORDS.items()}
    if problems:
        return problems
    texts |= words
    return acl_of(**{name: texts[_CALLED.get(name, name)] for name in AclBinding._fields}, called=_CALLED)


_CALLED = {
    "pattern_type": _OPTIONAL,
    "principal": "acl_principal",
    "host": "acl_host",
    "operation": "acl_operation",
    "permission_type": "acl_permission_type",
}


def _entries(walk: JsonWalk) -> Iterator[Entry]:
    for line, name in walk.members():
        if name in ("values", "planned_values"):
            yield from _shown(line, walk.value())
        elif name != "resource":
            value = walk.value()
            if name == "module" and value:
                yield line, [_MODULE]
        elif walk.next() != "{":
            yield line, ["`resource`: write an object of types, names and resources"]
            walk.value()
        else:
            yield from _written(walk)
    walk.end()


def _written(walk: JsonWalk) -> Iterator[Entry]:
    for line, kind in walk.members():
        if kind != KIND:
            if problems := _refuse_kind(kind):
                yield line, problems
            walk.value()
        elif walk.next() != "{":
            yield line, [f"`{KIND}`: write an object of names and resources"]
            walk.value()
        else:
            for name_line, _ in walk.members():
                value = walk.value()
                if isinstance(value, Pairs):
                    given = [(field, _text_of(found)) for field, found in value if field != "//"]
                    yield name_line, _acl(given)
                else:
                    yield name_line, ["not an object; write the fields of the resource"]


def _shown(line: int, values: object) -> Iterator[Entry]:
    """The ACLs of a state or of a plan. All of it is on one line, so a problem names the resource."""
    modules = [_member(values, "root_module")]
    while modules:
        module = modules.pop()
        modules += reversed(_listed(module, "child_modules"))
        for resource in _listed(module, "resources"):
            kind, address = str(_member(resource, "type")), str(_member(resource, "address"))
            fields = _member(resource, "values")
            found: NewAcl | list[str] = _refuse_kind(kind)
            if kind == KIND:
                given = [pair for pair in fields if pair[0] != "id"] if isinstance(fields, Pairs) else []
                found = _acl(given)
            if found:
                yield line, [f"{address[:MAX_SHOWN]}: {each}" for each in found] if isinstance(found, list) else found


def _member(value: object, name: str) -> object:
    return dict(value).get(name) if isinstance(value, Pairs) else None


def _listed(value: object, name: str) -> list[object]:
    found = _member(value, name)
    return found if isinstance(found, list) else []


def _text_of(value: object) -> str | None:
    """The text that Terraform takes it for; None if it is a template, or no text."""
    if not isinstance(value, str):
        return None
    parts = []
    at = 0
    for found in _TEMPLATE.finditer(value):
        if len(found[1]) == 1:
            return None
        parts.append(f"{value[at : found.start()]}{found[1][1:]}{{")
        at = found.end()
    return unicodedata.normalize("NFC", "".join([*parts, value[at:]]))
