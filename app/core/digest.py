"""The order-free digest of an image: the sum of the SHA-256 of every row, modulo 2^256 (docs/feed.md).

Rows can be added and taken away in any order, so it costs a writer two hashes a change. It finds accidental damage and
changes that were missed. It is no proof against someone who can choose rows: sums of hashes can be steered; the
chain's hash is the protection against that.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256

from app.core.kafka.bindings import AclRow, AclTerms, StandardAcl

MODULUS = 1 << 256
DIGEST_BYTES = 32

_SPECIAL = re.compile(r"[\\\b\t\n\v\f\r]")
_ESCAPES = {"\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r"}


def acl_line(acl: StandardAcl) -> bytes:
    """The ACL as one line of text, without its line end: what PostgreSQL's COPY writes, null as an empty field."""
    return row_line(acl.row, acl.terms)


def row_line(row: AclRow, terms: AclTerms) -> bytes:
    """As `acl_line`."""
    acl_id, resource_type, pattern_type, operation, permission_type, name, principal, host = row
    # U+0000 can't be stored, so it separates the texts while they are escaped, which is rarely needed.
    texts = _escaped(f"{name}\0{principal}\0{host}").replace("\0", "\t")
    ends = "" if terms.expires_at is None else str(seconds_of(terms.expires_at))
    owner = "" if terms.owner is None else _escaped(terms.owner)
    codes = f"{resource_type}\t{pattern_type}\t{operation}\t{permission_type}"
    return f"{acl_id.hex()}\t{codes}\t{texts}\t{ends}\t{owner}".encode()


def config_line(name: str, value: str) -> bytes:
    """A stored configuration value in the same form; no id of an ACL reads `config`."""
    return f"config\t{_escaped(name)}\t{_escaped(value)}".encode()


def acl_digest(acl: StandardAcl) -> int:
    return int.from_bytes(sha256(acl_line(acl)).digest())


def config_digest(name: str, value: str | None) -> int:
    """0 for a property without a stored value."""
    return 0 if value is None else int.from_bytes(sha256(config_line(name, value)).digest())


def digest_of_lines(lines: Iterable[bytes]) -> int:
    return sum([int.from_bytes(sha256(line).digest()) for line in lines]) % MODULUS


def digest_of(acls: Iterable[StandardAcl], configs: Mapping[str, str]) -> int:
    """The digest of a whole image."""
    rows = sum(map(acl_digest, acls))
    return (rows + sum(config_digest(name, value) for name, value in configs.items())) % MODULUS


def seconds_of(moment: datetime) -> int:
    """Seconds since 1970 of a time in whole seconds."""
    return int(moment.timestamp())


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], text)
