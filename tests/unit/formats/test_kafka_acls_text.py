import io
from pathlib import Path

import pytest

from app.core.bindings import AclBinding
from app.core.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.registry import format_named, recognise
from tests.unit.formats.acl_sets import bindings_of, problems_of, written

FORMAT = format_named("kafka-acls")
HEADER = "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders-, patternType=PREFIXED)`:\n"
ENTRY = "\t(principal=User:CN=a b, O=x, host=*, operation=DESCRIBE_CONFIGS, permissionType=ALLOW)\n"
OLD = (
    "Current ACLs for resource `Topic:PREFIXED:orders-`: \n "
    "\tUser:CN=a b, O=x has Allow permission for operations: DescribeConfigs from hosts: * \n\n"
)
ORDERS = AclBinding(
    ResourceType.TOPIC,
    "orders-",
    PatternType.PREFIXED,
    "User:CN=a b, O=x",
    "*",
    AclOperation.DESCRIBE_CONFIGS,
    AclPermissionType.ALLOW,
)


def acl(name: str = "t", principal: str = "User:a", host: str = "*") -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, PatternType.LITERAL, principal, host, AclOperation.READ, AclPermissionType.ALLOW
    )


def test_it_is_written_as_kafka_acls_prints_it() -> None:
    group = AclBinding(
        ResourceType.GROUP, "g", PatternType.LITERAL, "User:b", "::1", AclOperation.READ, AclPermissionType.DENY
    )
    other = AclBinding(
        ResourceType.TOPIC,
        "orders-",
        PatternType.PREFIXED,
        "User:b",
        "10.0.0.0/8",
        AclOperation.ALL,
        AclPermissionType.DENY,
    )
    assert written(FORMAT, [ORDERS, other, group]).decode() == (
        f"{HEADER}{ENTRY}\t(principal=User:b, host=10.0.0.0/8, operation=ALL, permissionType=DENY)\n\n"
        "Current ACLs for resource `ResourcePattern(resourceType=GROUP, name=g, patternType=LITERAL)`:\n"
        "\t(principal=User:b, host=::1, operation=READ, permissionType=DENY)\n\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        HEADER + ENTRY + "\n",
        HEADER + ENTRY.rstrip(),
        (HEADER + ENTRY).replace("\n", "\r\n"),
        HEADER.replace("Current", "Adding").replace("`:", "`: ") + " " + ENTRY + "\n",
        "ACLs for principal `User:CN=a b, O=x`\n" + HEADER + ENTRY + "\n",
        f"Acl (pattern={HEADER.split('`')[1]}, entry={ENTRY.strip()}) already exists.\n",
        OLD,
    ],
    ids=["list", "no last newline", "crlf", "add", "of a principal", "exists", "2.0"],
)
def test_every_shape_of_the_text_is_read(text: str) -> None:
    assert recognise(text.encode()) is FORMAT
    assert bindings_of(text.encode()) == [ORDERS]


@pytest.mark.parametrize(
    ("header", "name", "resource_type", "pattern_type"),
    [
        ("Topic:orders", "orders", ResourceType.TOPIC, PatternType.LITERAL),
        ("Group:PREFIXED:a:b", "a:b", ResourceType.GROUP, PatternType.PREFIXED),
        ("TransactionalId:LITERAL:*", "*", ResourceType.TRANSACTIONAL_ID, PatternType.LITERAL),
        ("Cluster:LITERAL:kafka-cluster", "kafka-cluster", ResourceType.CLUSTER, PatternType.LITERAL),
        ("DelegationToken:LITERAL:x", "x", ResourceType.DELEGATION_TOKEN, PatternType.LITERAL),
    ],
)
def test_old_resources_are_read(header: str, name: str, resource_type: ResourceType, pattern_type: PatternType) -> None:
    text = (
        f"Current ACLs for resource `{header}`: \n \tUser:a has Deny permission for operations: All from hosts: ::1\n"
    )
    assert bindings_of(text.encode()) == [
        AclBinding(resource_type, name, pattern_type, "User:a", "::1", AclOperation.ALL, AclPermissionType.DENY)
    ]


@pytest.mark.parametrize(
    "binding",
    [
        acl(principal="User:uid=1, host=db1, operation=READ, permissionType=ALLOW)"),
        acl(name="a, patternType=LITERAL)`:"),
        acl(name="x, name=y"),
        acl(principal="User:a\u2028b\x0bc\x85d"),
        acl(principal="User:"),
        acl(host="a b)"),
    ],
)
def test_texts_that_look_like_the_format_are_read_back(binding: AclBinding) -> None:
    assert bindings_of(written(FORMAT, [binding])) == [binding]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([HEADER, "\n", ENTRY], "3: an entry without a resource above it"),
        ([ENTRY], "1: an entry without a resource above it"),
        ([HEADER, "[2026] WARN no log4j\n", ENTRY], "2: neither a resource nor an entry"),
        ([HEADER, ENTRY.replace("\t", "")], "2: neither a resource nor an entry"),
        ([HEADER, ENTRY.replace("\t", "\t\t")], "2: neither a resource nor an entry"),
        ([HEADER, ENTRY.replace("host=", "hast=")], "2: neither a resource nor an entry"),
        ([HEADER, ENTRY.replace("ALLOW)", "ALLOW")], "2: neither a resource nor an entry"),
        ([HEADER, ENTRY.replace("DESCRIBE_CONFIGS", "UNKNOWN")], "2: Invalid operation UNKNOWN"),
        ([HEADER, ENTRY.replace("DESCRIBE_CONFIGS", "FLY")], "2: `operation`: `FLY` is none of Kafka's words"),
        ([HEADER.replace("TOPIC", "Topic"), ENTRY], "2: `resource_type`: `Topic` is none of Kafka's words"),
        (["Current ACLs for resource `?`:\n", ENTRY], "1: a resource that can't be read"),
        (
            ["Are you sure you want to remove ACLs: \n", " " + ENTRY],
            "1: neither a resource nor an entry",
        ),
        (
            ["Acl (pattern=x), entry=(principal=a), entry=(principal=b)) already exists.\n"],
            "1: expected one `, entry=(principal=`",
        ),
    ],
)
def test_a_line_that_kafka_acls_does_not_print_there_is_told(lines: list[str], problem: str) -> None:
    assert problems_of("".join(lines).encode(), FORMAT)[0].startswith(problem)


def test_an_entry_never_goes_to_the_resource_of_another_block() -> None:
    text = HEADER + ENTRY + "\nCurrent ACLs for resource `ResourcePattern(what)`:\n" + ENTRY
    assert [each.partition(":")[0] for each in problems_of(text.encode())] == ["4", "5"]


def test_a_long_text_is_read_line_by_line() -> None:
    class Lines(io.RawIOBase):
        """A text without end, which nobody may read as a whole."""

        def __init__(self) -> None:
            self.given = 0

        def readline(self, size: int | None = -1) -> bytes:
            assert size is not None
            assert 0 < size <= 1024 * 1024
            self.given += 1
            return HEADER.encode() if self.given == 1 else ENTRY.encode()

    found = FORMAT.read(Lines())  # type: ignore[arg-type]  # only its lines are asked for
    assert [next(found) for _ in range(1_000)] == [(at, ORDERS) for at in range(2, 1_002)]


def test_what_kafkas_own_classes_print_is_read_right() -> None:
    """The text comes from Kafka 4.3.1 (`kafka_acls_list.txt`; how it was made stands in `PrintAcls.java`)."""
    folder = Path(__file__).parent / "fixtures"
    text = (folder / "kafka_acls_list.txt").read_bytes()
    expected = bindings_of((folder / "kafka_acls_list.jsonl").read_bytes())
    assert bindings_of(text) == expected
    assert len(expected) > 50
