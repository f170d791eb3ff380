"""The formats by their names, and how a file's format is told from its content."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import KafkaCode
from app.core.spelling import nearest
from app.formats.acl_csv import is_csv, read_csv, write_csv
from app.formats.acl_entries import MAX_SHOWN, VAGUE, Entry, FormatLimitError, Problem
from app.formats.acl_json import (
    is_create_acls_body,
    is_json_lines,
    read_create_acls_body,
    read_json_lines,
    write_create_acls_body,
    write_json_lines,
)
from app.formats.confluent import is_confluent, read_confluent, write_confluent
from app.formats.feed_snapshot import is_feed_snapshot, read_feed_snapshot
from app.formats.jikkou import is_jikkou, read_jikkou, write_jikkou
from app.formats.json_walk import not_json
from app.formats.kafka_acls_text import is_kafka_acls_text, read_kafka_acls_text, write_kafka_acls_text
from app.formats.kustomization import changes_of
from app.formats.lines import TextFault
from app.formats.reading import Reading
from app.formats.rpk import is_rpk, read_rpk, write_rpk
from app.formats.source import Outline, Source
from app.formats.strimzi import is_strimzi, read_strimzi, write_strimzi
from app.formats.terraform import is_hcl, is_terraform, read_terraform, write_terraform
from app.formats.yaml_documents import Fields, is_null


@dataclass(frozen=True, slots=True)
class AclFormat:
    """A file format of ACLs."""

    name: str
    description: str
    limits: str
    """What it can't express, in one line; empty if nothing."""
    recognised: Callable[[Outline], bool] | None
    """By the outline of JSON or YAML; None if it is a text of lines."""
    read: Callable[[Source, Reading], Iterator[Entry]]
    """The entries of a file. Raises TextFault, JSONDecodeError and RecursionError where it can't be read on."""
    _write: Callable[[Sequence[NewAcl], TextIO], None]
    says_terms: bool = False
    """Whether it has a place for ends and owners; otherwise they are left out."""
    has_escapes: bool = True
    """Whether control characters are written as escapes; otherwise they are written as they are."""

    def write(self, acls: Sequence[NewAcl], out: TextIO) -> None:
        """Write them in their order. Raises FormatLimitError before anything is written if one can't be.

        `out` must take line ends as they come (`newline=""`).
        """
        for binding in (each.binding for each in acls):
            if any(isinstance(each, KafkaCode) and each.name in VAGUE for each in binding):
                raise FormatLimitError(
                    binding, "it has a value that no ACL can have, or that this version does not know"
                )
        self._write(acls, out)


def _bare(write: Callable[[Sequence[AclBinding], TextIO], None]) -> Callable[[Sequence[NewAcl], TextIO], None]:
    """A writer of other tools' formats, which have no place for ends and owners."""
    return lambda acls, out: write([each.binding for each in acls], out)


_TEMPLATE_SIGNS = (b"{{", b"{%", b"{#")
_STRANGERS = (
    (b"\xff\xfe", "is UTF-16; save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16; save it as UTF-8"),
    (b"PK\x03\x04", "is compressed with zip; decompress it first"),
    (b"\xfd7zXZ", "is compressed with xz; decompress it first"),
    (b"BZh", "is compressed with bzip2; decompress it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd; decompress it first"),
    *((sign, "looks like a template that nothing has filled in; give what is made of it") for sign in _TEMPLATE_SIGNS),
)
_TABLES = {
    "is a table of Confluent's CLI, which wraps names, trims them and may leave the host out; list the ACLs with "
    "`confluent kafka acl list --output json`": re.compile(
        rb"(?:[-+|\s]|\x1b\[[\d;]*m)*(?:Kafka Cluster\s*\|\s*)?Principal\s*\|\s*Permission\s*\|"
    ),
    "is a table of rpk, in which spaces of names can't be told from its own; list the ACLs with `rpk security acl "
    "list --format json`": re.compile(rb"(?:[=\s]|\x1b\[[\d;]*m|FILTERS|MATCHES)*PRINCIPAL\s+HOST\s+RESOURCE-TYPE"),
}
"""How listings for people begin, which may lack parts of an ACL, and what to use instead."""


def _as_the_service_sends_it(_: Sequence[NewAcl], __: TextIO) -> None:
    raise TypeError("only a service can write the events of a snapshot")


FORMATS = (
    AclFormat(
        "klamm",
        "Klamm's JSON: a body of createAcls",
        "",
        is_create_acls_body,
        read_create_acls_body,
        write_create_acls_body,
        says_terms=True,
    ),
    AclFormat(
        "rpk",
        "JSON that Redpanda's rpk lists",
        "no principals RedpandaRole:<name>",
        is_rpk,
        read_rpk,
        _bare(write_rpk),
    ),
    AclFormat(
        "confluent",
        "JSON of Confluent's REST proxy, v3: KafkaAclList, a body of acls:batch, one ACL (its CLI's lists are read)",
        "",
        is_confluent,
        read_confluent,
        _bare(write_confluent),
    ),
    AclFormat(
        "csv",
        "comma-separated, as kafbat UI and Kafka Security Manager have it",
        "",
        None,
        read_csv,
        write_csv,
        says_terms=True,
        has_escapes=False,
    ),
    AclFormat(
        "kafka-acls",
        "text that kafka-acls prints",
        "in names, principals and hosts no line ends, no terminal's escape sequences, and none of the text's own words",
        None,
        read_kafka_acls_text,
        _bare(write_kafka_acls_text),
        has_escapes=False,
    ),
    AclFormat(
        "jikkou",
        "KafkaPrincipalAuthorization resources of Jikkou, YAML",
        "no `{{`, `{%` and `{#` in names, principals and hosts",
        is_jikkou,
        read_jikkou,
        _bare(write_jikkou),
    ),
    AclFormat(
        "strimzi",
        "KafkaUser resources of Strimzi, YAML",
        "principals User:<name> and User:CN=<name> with a name of Kubernetes, and not both of one name; no ACLs on "
        "DELEGATION_TOKEN and USER; no CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT; CLUSTER is LITERAL; no `{{`, "
        "`{%` and `{#` in names and hosts",
        is_strimzi,
        read_strimzi,
        _bare(write_strimzi),
    ),
    AclFormat(
        "terraform",
        "kafka_acl resources of Terraform's provider Mongey/kafka, .tf.json (what terraform show -json prints is read)",
        "no ACLs on USER; no CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT; texts in Unicode's normal form C",
        is_terraform,
        read_terraform,
        _bare(write_terraform),
    ),
    AclFormat(
        "jsonl",
        "JSON Lines: one binding of createAcls per line",
        "",
        is_json_lines,
        read_json_lines,
        write_json_lines,
        says_terms=True,
    ),
)
"""A file is read by the first format that recognises it."""

JSON_LINES = FORMATS[-1]

FEED = AclFormat(
    "feed",
    "the events of a snapshot, with ids and digest: `klamm verify` proves it; always all ACLs",
    "",
    is_feed_snapshot,
    read_feed_snapshot,
    _as_the_service_sends_it,
    says_terms=True,
)
"""Read as any other. Only a service can write it: it knows ids, properties and hashes."""

FORMAT_NAMES = tuple(each.name for each in (*FORMATS, FEED))


def format_named(name: str) -> AclFormat:
    found = next((each for each in (*FORMATS, FEED) if each.name == name), None)
    if found is None:
        raise ValueError(f"`{name[:100]}` is not a format; the formats are {', '.join(FORMAT_NAMES)}")
    return found


_TEXTS: tuple[tuple[AclFormat, Callable[[bytes], bool]], ...] = (
    (format_named("kafka-acls"), is_kafka_acls_text),
    (format_named("csv"), is_csv),
    (format_named("terraform"), is_hcl),
)
"""Those that are recognised by their first lines."""


def recognise(source: Source) -> AclFormat | None:
    """The format of the file's content. Raises TextFault if it is broken before that can be told."""
    found = next((acl_format for acl_format, is_this in _TEXTS if is_this(source.head)), None)
    if found is not None or _stranger(source.head) is not None:
        return found
    outline = _outline(source)
    if outline is None:
        return None
    return next((each for each in (FEED, *FORMATS) if each.recognised is not None and each.recognised(outline)), None)


def _outline(source: Source) -> Outline | None:
    try:
        return source.outline
    except json.JSONDecodeError as fault:
        raise TextFault(fault.lineno, not_json(fault)) from None
    except (ValueError, RecursionError):
        raise TextFault(1, _TOO_LONG_OR_DEEP) from None


def read_entries(
    source: Source, reading: Reading, given: AclFormat | None = None, *, otherwise: AclFormat | None = None
) -> Iterator[Entry]:
    """The entries of a file: in the format that is `given`, else in its own, or `otherwise` if it shows none.

    What can't be read is an entry as well, the last one; that the file is in no known format is one Unrecognised. An
    empty file has none. Raises OSError, EOFError or zlib.error if the file can't be read or unpacked.
    """
    try:
        found = given or _recognised(source, otherwise)
        if found is not None:
            reading.format_name = found.name
            yield from found.read(source, reading)
        elif _is_kustomization(source):
            for document in source.documents():
                if isinstance(document, Fields):
                    reading.passed_over[_KUSTOMIZATION] += 1
                    yield from changes_of(document, reading)
        elif text := _unrecognised(source):
            yield 1, [Unrecognised(text)]
    except json.JSONDecodeError as fault:
        yield fault.lineno, [Problem(not_json(fault))]
    except TextFault as fault:
        yield fault.line, [Problem(str(fault))]
    except (ValueError, RecursionError):
        yield 1, [Problem(_TOO_LONG_OR_DEEP)]


def _recognised(source: Source, otherwise: AclFormat | None) -> AclFormat | None:
    try:
        found = recognise(source)
    except TextFault:
        if otherwise is None:
            raise
        return otherwise
    # INVARIANT: what is known for something else, such as a table for people, is not read as what it is not.
    is_known = found is not None or _stranger(source.head) is not None or source.is_empty or _is_kustomization(source)
    return found if is_known else otherwise


def _is_kustomization(source: Source) -> bool:
    """Whether it is kustomize's own file, which may do without apiVersion and kind, and changes no names and ACLs."""
    outline = None if source.is_json else _outline(source)
    if outline is None or not outline.has("resources", kind="[") or not _KUSTOMIZED.issuperset(outline.fields):
        return False
    return sum(not is_null(document) for document in source.documents()) == 1


class Unrecognised(Problem):
    """That a file is in no known format; the text follows the name of the file."""

    __slots__ = ()


def _unrecognised(source: Source) -> str:
    """The refusal of a file in no known format, to follow its name; empty if nothing is in the file.

    Raises as `read_entries` catches it if the file is broken, which is then the likelier cause.
    """
    told = _stranger(source.head)
    if told is not None or source.is_empty:
        return told or ""
    outline = _outline(source)
    names = list(outline.fields) if outline is not None else []
    if names or source.is_json:
        for _ in source.documents():
            pass
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    are = "field is" if len(names) == 1 else "fields are"
    about = f": its outermost {are} {', '.join(map(_with_known, names[:_NAMES_SHOWN]))}{more}" if names else ""
    return f"is in no format that Klamm recognises{about}; name its format with --format: {', '.join(FORMAT_NAMES)}"


def _with_known(name: str) -> str:
    """The name, and which one was probably meant."""
    meant = nearest(name, _TOP_NAMES, likeness=_ALIKE)
    return f"`{name[:MAX_SHOWN]}`{f' (did you mean `{meant}`?)' if meant not in (None, name) else ''}"


def _stranger(head: bytes) -> str | None:
    told = next((text for magic, text in _STRANGERS if head.startswith(magic)), None)
    return told or next((text for text, beginning in _TABLES.items() if beginning.match(head) is not None), None)


_KUSTOMIZATION = "Kustomization"
_KUSTOMIZED = frozenset(
    ("resources", "namespace", "labels", "commonLabels", "commonAnnotations", "images", "configMapGenerator")
)
_TOO_LONG_OR_DEEP = "a number is too long, or the nesting is too deep"
_NAMES_SHOWN = 5
_ALIKE = 0.75
_TOP_NAMES = ("bindings", "matches", "data", "resource", "values", "planned_values", "apiVersion", "kind")
"""The fields at the top by which files of JSON and YAML are recognised."""
