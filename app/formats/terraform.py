"""Resources `kafka_acl` of Terraform's Kafka provider (Mongey/kafka), in Terraform's JSON (`.tf.json`).

HCL is not read: what a variable, a module, `count` or `for_each` makes of it, only Terraform can tell, and
`terraform show -json` does.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, TextIO

from msgspec import field

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.acl_entries import MAX_SHOWN, Entry, FieldPlace, FormatLimitError, Problem
from app.formats.quoting import json_quoted
from app.formats.reading import Cluster, Reading
from app.formats.shape_faults import Refused
from app.formats.shape_reader import read_shape
from app.formats.shapes import Blocks, Others, PassedOver, Raw, Shape, as_refused, as_text
from app.formats.source import Outline, Source
from app.formats.terraform_acls import (
    DEFAULT_PROVIDER,
    KIND,
    ONLY_TERRAFORM,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSION_TYPES,
    RESOURCE_TYPES,
    TEMPLATE,
    AclFields,
    PatternTypeWord,
    refusal_of_acls_in,
    refusal_of_type,
    second_cluster,
)
from app.formats.terraform_show import is_shown, read_shown
from app.formats.yaml_documents import Fields, Items, Value, fields, fields_of, line_of, scalar

_RESOURCE_WORDS = {ResourceType[name]: word for word, name in RESOURCE_TYPES.items()}
_PATTERN_WORDS = {PatternType[name]: word for word, name in PATTERN_TYPES.items()}
_OPERATION_WORDS = {AclOperation[name]: word for word, name in OPERATIONS.items()}
_PERMISSION_WORDS = {AclPermissionType[name]: word for word, name in PERMISSION_TYPES.items()}

_HCL = "HCL, which only Terraform can evaluate; give what `terraform show -json` prints, or write it as .tf.json"
_NOT_JSON = "not JSON; give what `terraform show -json` prints, or a .tf.json"
_RAW_STATE = "a state as Terraform stores it; give what `terraform show -json` prints"
_BLOCKS = ("resource", "data", "ephemeral", "action", "provider", "terraform", "variable", "locals", "output", "module",
           "moved", "import", "removed", "check")  # fmt: skip
_HCL_BEGINS = re.compile(
    rb"(?:\s|(?:#|//)[^\n]*(?:\n|\Z)|/\*.*?\*/)*+"
    rb"(?P<block>(?:%s)\b(?:[ \t]*(?:\"[^\"\n]*\"|[\w-]+))*+[ \t]*\{)" % "|".join(_BLOCKS).encode(),
    re.DOTALL,
)
_SIGN = re.compile(r"[$%](?=\{)")
_PROVIDER = re.compile(r"[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)?\Z")
_NO_SLUG = re.compile(r"[^a-z0-9]+")
_MAX_SLUG = 40
_COMMENT = "//"


def _evaluated(text: str) -> str:
    value = _text_of(text)
    if value is None:
        raise ValueError(f"a template, and {ONLY_TERRAFORM}")
    return value


def _provider_of(text: str) -> str:
    if _PROVIDER.match(text) is None:
        raise ValueError(f"`{text[:MAX_SHOWN]}` is no provider configuration; write its name, or its name and alias")
    return text


_Text = Annotated[str, as_text(_evaluated)]
_Many = Annotated[Any, as_refused(f"so there may be more than one ACL, or none, and {ONLY_TERRAFORM}")]
_Module = Annotated[Any, as_refused(f"a module may hold `{KIND}` resources; give what `terraform show -json` prints")]
_Ignored = Annotated[
    Any, as_refused("so the ACL may be another one in the cluster; give what `terraform show -json` prints")
]


class _Body(Shape, kw_only=True):
    """Of a block. `//` is a comment."""

    comment: PassedOver = field(name=_COMMENT, default=None)


class _Lifecycle(_Body):
    create_before_destroy: PassedOver = None
    prevent_destroy: PassedOver = None
    destroy: PassedOver = None
    ignore_changes: _Ignored = None
    replace_triggered_by: PassedOver = None
    precondition: PassedOver = None
    postcondition: PassedOver = None
    action_trigger: PassedOver = None


class _Acl(AclFields, kw_only=True):
    comment: PassedOver = field(name=_COMMENT, default=None)
    resource_name: _Text
    acl_principal: _Text
    acl_host: _Text
    resource_pattern_type_filter: PatternTypeWord = PATTERN_TYPES["Literal"]
    provider: Annotated[str, as_text(_provider_of)] = DEFAULT_PROVIDER
    count: _Many = None
    for_each: _Many = None
    depends_on: PassedOver = None
    lifecycle: Blocks[_Lifecycle] = field(default_factory=list)
    connection: PassedOver = None
    provisioner: Raw = None


class _Named(Shape):
    """Blocks by their last label."""

    bodies: Others[Raw] = field(default_factory=dict)


class _Types(Shape):
    kafka_acl: Blocks[dict[str, Blocks[Raw]]] = field(default_factory=list)
    others: Others[Blocks[_Named]] = field(default_factory=dict)


class _Terraform(_Body):
    required_version: PassedOver = None
    required_providers: PassedOver = None
    provider_meta: PassedOver = None
    experiments: PassedOver = None
    language: PassedOver = None
    backend: PassedOver = None
    cloud: PassedOver = None
    state_store: PassedOver = None
    encryption: PassedOver = None


class _Variable(_Body):
    type: PassedOver = None
    default: PassedOver = None
    description: PassedOver = None
    validation: PassedOver = None
    sensitive: PassedOver = None
    nullable: PassedOver = None
    ephemeral: PassedOver = None
    deprecated: PassedOver = None
    const: PassedOver = None


class _Output(_Body):
    value: PassedOver
    type: PassedOver = None
    description: PassedOver = None
    sensitive: PassedOver = None
    ephemeral: PassedOver = None
    deprecated: PassedOver = None
    depends_on: PassedOver = None
    precondition: PassedOver = None
    postcondition: PassedOver = None


class _Moved(_Body):
    origin: PassedOver = field(name="from")
    to: PassedOver


class _Import(_Body):
    to: PassedOver
    id: PassedOver = None
    identity: PassedOver = None
    provider: PassedOver = None
    for_each: PassedOver = None


class _Removed(_Body):
    origin: PassedOver = field(name="from")
    lifecycle: PassedOver = None
    connection: PassedOver = None
    provisioner: PassedOver = None


class _Check(_Body):
    data: PassedOver = None
    assertion: PassedOver = field(name="assert", default=None)


_OfTypes = Blocks[dict[str, Blocks[_Named]]]


class _Configuration(_Body):
    """All blocks of a `.tf.json`."""

    resource: Blocks[_Types] = field(default_factory=list)
    data: _OfTypes = field(default_factory=list)
    ephemeral: _OfTypes = field(default_factory=list)
    action: _OfTypes = field(default_factory=list)
    provider: Blocks[_Named] = field(default_factory=list)
    locals: Blocks[_Named] = field(default_factory=list)
    variable: Blocks[dict[str, Blocks[_Variable]]] = field(default_factory=list)
    output: Blocks[dict[str, Blocks[_Output]]] = field(default_factory=list)
    check: Blocks[dict[str, Blocks[_Check]]] = field(default_factory=list)
    terraform: Blocks[_Terraform] = field(default_factory=list)
    moved: Blocks[_Moved] = field(default_factory=list)
    imports: Blocks[_Import] = field(name="import", default_factory=list)
    removed: Blocks[_Removed] = field(default_factory=list)
    module: Blocks[dict[str, _Module]] = field(default_factory=list)


_OF_RAW_STATES = ("lineage", "serial")


def is_hcl(head: bytes) -> bool:
    """Whether its first line that is neither blank nor a comment begins a block."""
    return _HCL_BEGINS.match(head) is not None


def is_terraform(outline: Outline) -> bool:
    if outline.has(*_BLOCKS, kind="{") or outline.has(*(each for each in _BLOCKS if each != "data"), kind="["):
        return True
    return not outline.is_list and (
        outline.has("format_version", "planned_values", *_OF_RAW_STATES) or outline.has("values", kind="{")
    )


def read_terraform(source: Source, reading: Reading) -> Iterator[Entry]:
    """The ACLs of a `.tf.json`, or of a state or plan as `terraform show -json` prints it. HCL is refused."""
    if not source.is_json:
        found = _HCL_BEGINS.match(source.head)
        line = 1 if found is None else source.head.count(b"\n", 0, found.start("block")) + 1
        yield line, [Problem(_NOT_JSON if found is None else _HCL)]
        return
    for document in source.documents():
        if isinstance(document, Fields) and is_shown(document):
            yield from read_shown(document, reading)
        elif isinstance(document, Fields) and any(each in fields_of(document) for each in _OF_RAW_STATES):
            yield line_of(document), [Problem(_RAW_STATE)]
        else:
            yield from _configuration(document, reading)


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


def _text_of(value: str) -> str | None:
    """The text that Terraform takes it for; None if it is a template."""
    parts = []
    at = 0
    for found in TEMPLATE.finditer(value):
        if len(found[1]) == 1:
            return None
        parts.append(f"{value[at : found.start()]}{found[1][1:]}{{")
        at = found.end()
    return unicodedata.normalize("NFC", "".join([*parts, value[at:]]))


def _configuration(document: Value, reading: Reading) -> Iterator[Entry]:
    """The ACLs of a `.tf.json`, whose outermost value is the body of a file, or a list of such bodies."""
    names: set[str] = set()
    others: list[Value] = []
    is_faulty = False
    for body in document.value if isinstance(document, Items) else [document]:
        for line, found in _blocks(body, names, others, reading):
            is_faulty |= isinstance(found, list)
            yield line, found
    # Locals and variables may have the fields of ACLs, for resources with `for_each`: those are refused already.
    for each in others if not is_faulty else ():
        fault = refusal_of_acls_in(each, ())
        if fault is not None:
            yield fault[0], [fault[1]]


def _blocks(body: Value, names: set[str], others: list[Value], reading: Reading) -> Iterator[Entry]:
    """`names` are those of all resources before, `others` the blocks that are passed over; both grow."""
    if not isinstance(body, Fields):
        yield line_of(body), [Problem("not a mapping; write Terraform's blocks")]
        return
    for name, value in body.value:
        # Each on its own, so that one with a fault doesn't hide those of another.
        try:
            found = read_shape(_Configuration, fields([(name, value)], line_of(name)), reading)
        except Refused as refused:
            yield from ((line, [problem]) for line, problem in refused.faults)
        else:
            yield from _acls(found, names, reading)
            yield from _pass_over(found, reading)
            if name.value in _BLOCKS and name.value != "resource":
                others.append(value)


def _acls(found: _Configuration, names: set[str], reading: Reading) -> Iterator[Entry]:
    for types in found.resource:
        for resources in types.kafka_acl:
            for name, bodies in resources.items():
                for body in bodies:
                    yield from _acl(name, body, names, reading)
        for kind, some in types.others.items():
            yield from _pass_over_type(("resource", kind), kind, some, reading)


def _acl(name: str, body: Value, names: set[str], reading: Reading) -> Iterator[Entry]:
    place = ("resource", KIND, name)
    if name in names:
        yield line_of(body), [Problem("the resource comes more than once; give each a name of its own", place)]
        return
    names.add(name)
    try:
        resource = read_shape(_Acl, body, reading, place)
    except Refused as refused:
        yield from ((line, [problem]) for line, problem in refused.faults)
        return
    takes = reading.takes(Cluster(resource.provider), resource.line)
    if isinstance(takes, Problem):
        yield resource.line, [takes]
    elif takes:
        if resource.provisioner is not None:
            reading.passed_over["provisioner"] += 1
        yield resource.line, resource.acl()


def _pass_over(found: _Configuration, reading: Reading) -> Iterator[Entry]:
    """Counts what is passed over by name. Yields what can't be."""
    for named in found.provider:
        if DEFAULT_PROVIDER in named.bodies:
            yield from second_cluster(named.bodies[DEFAULT_PROVIDER], reading)
    for block, some in (("data", found.data), ("ephemeral", found.ephemeral), ("action", found.action)):
        for types in some:
            for kind, resources in types.items():
                yield from _pass_over_type((block, kind), f"{block}.{kind}", resources, reading)
    numbers = {
        "provider": sum(map(_number, found.provider)),
        "locals": sum(map(_number, found.locals)),
        "variable": sum(map(len, found.variable)),
        "output": sum(map(len, found.output)),
        "check": sum(map(len, found.check)),
        "terraform": len(found.terraform),
        "moved": len(found.moved),
        "import": len(found.imports),
        "removed": len(found.removed),
    }
    reading.passed_over.update({name: number for name, number in numbers.items() if number})


def _number(blocks: _Named) -> int:
    return sum(label != _COMMENT for label in blocks.bodies)


def _pass_over_type(place: FieldPlace, name: str, resources: list[_Named], reading: Reading) -> Iterator[Entry]:
    refusal = refusal_of_type(place[-1])
    if refusal is not None:
        yield resources[0].line, [Problem(refusal, place)]
        return
    reading.passed_over.update({name: number} if (number := sum(map(_number, resources))) else {})
    for each in resources:
        for label, body in each.bodies.items():
            # The label may be one of the fields, too.
            fault = refusal_of_acls_in(fields([(scalar(label, line_of(body)), body)], each.line), place)
            if fault is not None:
                yield fault[0], [fault[1]]
