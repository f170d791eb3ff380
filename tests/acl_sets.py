"""Random ACLs with all that is hard to write down, and how to write and read them."""

import io
import random
import unicodedata
from collections.abc import Sequence

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.acl_entries import Entry
from app.formats.reading import FileSet
from app.formats.registry import AclFormat, read_entries, recognise
from app.formats.source import Source

TYPES = tuple(ResourceType)[2:]
PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)
OPERATIONS = tuple(AclOperation)[2:]
PERMISSIONS = (AclPermissionType.DENY, AclPermissionType.ALLOW)

HOSTS = (
    "*", "*", "*", "10.0.0.1", "10.0.0.5/8", "0.0.0.0/0", "::/0", "2001:db8::/32", "fe80::1%eth0", "0:0:0:0:0:0:0:1",
    "client.example.org", "a host, of spaces", 'say "host"', "x, host=y", "back\\slash", "host=*, operation=READ",
)  # fmt: skip
NAMES = (
    "alice", "bob", "team-a.svc", "*", "a", "CN=alice", "CN=bob,OU=Shipping, O=Big Co", "CN=alice", "0-0", "Alice",
    "CN=x.y-z", "uid=1, host=db1, ou=users", "a:b", "", " ", "true", "null", "~", "012", "1e3", "=", "<<", "- a", "# a",
    "a, operation=READ, permissionType=ALLOW)", "b), entry=(principal=User:x", "`, patternType=LITERAL)`:", "no",
    "x has Allow permission for operations: Read from hosts: *", "a,TOPIC,LITERAL,b,READ,ALLOW,*", "TOPIC", ",", ",,",
    '"', '""', '"quoted"', "'", "\\", "\\\\", "\\n", "${x}", "$${x}", "$$${x}", "%{if}", "%%{x}", "$%{x}", "${", "$",
    "%", "\t", "a\nb", "a\r\nb", "\r", "\n", "\x01\x1f\x7f\x85\x9f", "\u2028\u2029\u202e\u200b\ufeff", "é",
    "e\u0301", "Å", "שלום", "مرحبا", "😀", "\U0010ffff", "日本, 語", "\u00a0x\u00a0", "x" * 300, "a{{b}}", "}", "{",
    "*/", "/*", "//", "<<EOT", "2026-01-01", "12:30:45", "0x10", ".inf", "!!str a", "&a", "*a", "|", ">", "@", "a: b",
    "a #b", "[a]", "?",
)  # fmt: skip
ALPHABET = " ,=\"'\\`():;*#$%{}[]&!|<>@~?-_/.aZ09\t\n\réß漢字😀\U0001f469\u200d\u0301\u202e\u05d0\x7f\u00a0"

CODES = (*range(1, 0xD800), *range(0xE000, 0x10000), *range(0x1F600, 0x1F700), 0x10FFFF)


def random_text(draw: random.Random) -> str:
    """A text that may stand in an ACL, hard ones often."""
    kind = draw.random()
    if kind < 0.5:
        return draw.choice(NAMES)
    if kind < 0.7:
        return "".join(draw.choices(NAMES, k=2))
    if kind < 0.9:
        return "".join(draw.choices(ALPHABET, k=draw.randrange(12)))
    return "".join(chr(draw.choice(CODES)) for _ in range(4))


def random_binding(draw: random.Random) -> AclBinding:
    """An ACL that createAcls takes."""
    resource_type = draw.choice(TYPES)
    name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else random_text(draw) or "a"
    kind = draw.choice(("User", "User", "User", "Group", "", "a b", "RedpandaRole"))
    host = draw.choice(HOSTS) if draw.random() < 0.8 else random_text(draw).replace("/", "") or "*"
    return AclBinding(
        resource_type,
        name,
        draw.choice(PATTERNS),
        f"{kind}:{random_text(draw)}",
        host,
        draw.choice(OPERATIONS),
        draw.choice(PERMISSIONS),
    )


def plain_binding(draw: random.Random) -> AclBinding:
    """An ACL that every format can say."""
    resource_type = draw.choice((ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID))
    text = random_text(draw).replace("\n", "").replace("\r", "").replace(", patternType=", "")
    name = unicodedata.normalize("NFC", text) or "a"
    operations = OPERATIONS[: OPERATIONS.index(AclOperation.IDEMPOTENT_WRITE) + 1]
    return AclBinding(
        resource_type,
        name,
        draw.choice(PATTERNS),
        draw.choice(("User:alice", "User:CN=bob", "User:team-a.svc", "User:CN=x.y-z", "User:0-0")),
        draw.choice(("*", "10.0.0.0/8", "2001:db8::/32", "10.1.2.3")),
        draw.choice(operations),
        draw.choice(PERMISSIONS),
    )


def written(acl_format: AclFormat, bindings: Sequence[AclBinding]) -> bytes:
    """The file that the format makes of them."""
    out = io.StringIO(newline="")
    acl_format.write([NewAcl(each) for each in bindings], out)
    return out.getvalue().encode()


def entries(raw: bytes, given: AclFormat | None = None, files: FileSet | None = None) -> list[Entry]:
    """What is read of a file."""
    return list(read_entries(Source(io.BytesIO(raw)), (files or FileSet()).reading(""), given))


def recognised(raw: bytes) -> AclFormat | None:
    return recognise(Source(io.BytesIO(raw)))


def acls_of(raw: bytes, given: AclFormat | None = None) -> list[NewAcl]:
    """The ACLs of a file without fault."""
    found = []
    for line, each in entries(raw, given):
        assert isinstance(each, NewAcl), (line, each)
        found.append(each)
    return found


def bindings_of(raw: bytes, given: AclFormat | None = None) -> list[AclBinding]:
    return [each.binding for each in acls_of(raw, given)]


def problems_of(raw: bytes, given: AclFormat | None = None) -> list[str]:
    """What is wrong with a file, each with its line."""
    return [
        f"{line}: {problem}" for line, each in entries(raw, given) if not isinstance(each, NewAcl) for problem in each
    ]
