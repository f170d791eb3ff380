"""The formats by their names, and how a file's format is told from its content."""

import gzip
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TextIO

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import KafkaCode
from app.formats.acl_csv import is_csv, read_csv, write_csv
from app.formats.acl_entries import VAGUE, Entry, FormatLimitError
from app.formats.acl_json import (
    is_create_acls_body,
    read_create_acls_body,
    read_json_lines,
    write_create_acls_body,
    write_json_lines,
)
from app.formats.confluent import is_confluent, read_confluent, write_confluent
from app.formats.feed_snapshot import is_feed_snapshot, read_feed_snapshot
from app.formats.jikkou import is_jikkou, read_jikkou, write_jikkou
from app.formats.kafka_acls_text import is_kafka_acls_text, read_kafka_acls_text, write_kafka_acls_text
from app.formats.rpk import is_rpk, read_rpk, write_rpk
from app.formats.strimzi import is_strimzi, read_strimzi, write_strimzi
from app.formats.terraform import is_terraform, read_terraform, write_terraform

_HEAD_BYTES = 64 * 1024
_BUFFER_BYTES = 256 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class AclFormat:
    """A file format of ACLs. `recognised` tells by a file's first bytes whether it may be in this format."""

    name: str
    description: str
    limits: str
    """What it can't express, in one line; empty if nothing."""
    recognised: Callable[[bytes], bool]
    read: Callable[[IO[bytes]], Iterator[Entry]]
    """The entries of a file, from its current position on."""
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


_STRANGERS = (
    (b"\xff\xfe", "is UTF-16; save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16; save it as UTF-8"),
    (b"PK\x03\x04", "is compressed with zip; decompress it first"),
    (b"\xfd7zXZ", "is compressed with xz; decompress it first"),
    (b"BZh", "is compressed with bzip2; decompress it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd; decompress it first"),
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


def _is_json_lines(head: bytes) -> bool:
    line, end, _ = head.lstrip().partition(b"\n")
    # JSON of another shape, over several lines, would be a fault in each of them.
    return not line or (line[:1] == b"{" and (line.rstrip()[-1:] == b"}" or b'"resource_' in line or not end))


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
        is_csv,
        read_csv,
        write_csv,
        says_terms=True,
        has_escapes=False,
    ),
    AclFormat(
        "kafka-acls",
        "text that kafka-acls prints",
        "no line ends and no terminal's escape sequences in names, principals and hosts; no `, host=` in hosts",
        is_kafka_acls_text,
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
        "DELEGATION_TOKEN and USER; no CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT; CLUSTER is LITERAL",
        is_strimzi,
        read_strimzi,
        _bare(write_strimzi),
    ),
    AclFormat(
        "terraform",
        "kafka_acl resources of Terraform's provider Mongey/kafka, .tf.json (what terraform show -json prints is read)",
        "no ACLs on DELEGATION_TOKEN and USER; no CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT; texts in "
        "Unicode's normal form C",
        is_terraform,
        read_terraform,
        _bare(write_terraform),
    ),
    AclFormat(
        "jsonl",
        "JSON Lines: one binding of createAcls per line",
        "",
        _is_json_lines,
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


def recognise(head: bytes) -> AclFormat | None:
    return next((each for each in (FEED, *FORMATS) if each.recognised(head)), None)


def read_entries(raw: IO[bytes], given: AclFormat | None = None) -> tuple[AclFormat | None, Iterator[Entry]]:
    """The format of a file and its entries, read from its beginning: unpacked if it is gzip, without a byte order mark.

    `raw` can be sought in. Unless a format is `given`, it is recognised; what looks like none is read as JSON Lines.
    A file without any ACL has one entry all the same, which says so. Raises OSError, EOFError or zlib.error, also
    while entries are read, if it can't be read or unpacked.
    """
    stream, head = _begun(raw)
    found = given or recognise(head)
    read_as = found or JSON_LINES
    return found, _some(read_as.read(stream), read_as)


def _some(entries: Iterator[Entry], read_as: AclFormat) -> Iterator[Entry]:
    # INVARIANT: no file is without effect in silence; to whoever plans, it would be the wish to have no ACL at all.
    first = next(entries, None)
    if first is None:
        yield 1, [f"it holds no ACLs in the format {read_as.name}; if they are in another one, name it with --format"]
        return
    yield first
    yield from entries


def unrecognised(raw: IO[bytes]) -> str:
    """The refusal of a file in no known format, to follow its name. Raises the same as `read_entries`."""
    _, head = _begun(raw)
    told = next((text for magic, text in _STRANGERS if head.startswith(magic)), None)
    told = told or next((text for text, beginning in _TABLES.items() if beginning.match(head) is not None), None)
    return told or f"is in no format that Klamm recognises; name its format with --format: {', '.join(FORMAT_NAMES)}"


def opened_text(raw: IO[bytes]) -> tuple[IO[bytes], AclFormat | None]:
    """The file, unpacked, and the format that it seems to have. Raises the same as `read_entries`."""
    stream, head = _begun(raw)
    return stream, recognise(head)


def _begun(raw: IO[bytes]) -> tuple[IO[bytes], bytes]:
    """The file, unpacked and positioned after any byte order mark, and its first bytes."""
    raw.seek(0)
    packed = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    raw.seek(0)
    stream = io.BufferedReader(gzip.GzipFile(fileobj=raw), _BUFFER_BYTES) if packed else raw
    head = stream.read(_HEAD_BYTES)
    mark = len(_BYTE_ORDER_MARK) if head.startswith(_BYTE_ORDER_MARK) else 0
    stream.seek(mark)
    return stream, head[mark:]
