import io
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.acl_entries import FormatLimitError
from app.formats.lines import TextFault
from app.formats.reading import Reading
from app.formats.registry import format_named
from tests.acl_sets import bindings_of, entries, problems_of, recognised, written

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


def test_every_shape_of_the_text_is_read(subtests: pytest.Subtests) -> None:
    for text in [
        HEADER + ENTRY + "\n",
        HEADER + ENTRY.rstrip(),
        (HEADER + ENTRY).replace("\n", "\r\n"),
        HEADER.replace("Current", "Adding").replace("`:", "`: ") + " " + ENTRY + "\n",
        "ACLs for principal `User:CN=a b, O=x`\n" + HEADER + ENTRY + "\n",
        f"Acl (pattern={HEADER.split('`')[1]}, entry={ENTRY.strip()}) already exists.\n",
        OLD,
    ]:
        with subtests.test(text=text):
            assert recognised(text.encode()) is FORMAT
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


def test_texts_that_look_like_the_format_are_read_back(subtests: pytest.Subtests) -> None:
    for binding in [
        acl(principal="User:CN=Doe\\, John, O=Big Co"),
        acl(name="a, host=b, operation=READ), (principal=c"),
        acl(principal="User:a, name=b, patternType=LITERAL)`:"),
        acl(principal="User:x has Deny permission for operations: Read from hosts: *"),
        acl(principal="User:a\u2028b\x0bc\x85d"),
        acl(principal="User:"),
        acl(host="a b)"),
    ]:
        with subtests.test(binding=binding):
            assert bindings_of(written(FORMAT, [binding])) == [binding]


def test_a_line_that_kafka_acls_does_not_print_there_is_told(subtests: pytest.Subtests) -> None:
    for lines, problem in [
        ([HEADER, "\n", ENTRY], "1: no entry follows the resource"),
        ([HEADER, HEADER, ENTRY], "1: no entry follows the resource"),
        ([HEADER, ENTRY, "\n", HEADER], "4: no entry follows the resource"),
        (["Current ACLs for resource `Topic:LITERAL:a`: \n"], "1: no entry follows the resource"),
        ([ENTRY], "1: an entry without a resource above it"),
        ([HEADER, "[2026] WARN no log4j\n", ENTRY], "2: neither a resource nor an entry"),
        ([HEADER, ENTRY.replace("\t", "")], "2: neither a resource nor an entry"),
        ([HEADER, ENTRY.replace("host=", "hast=")], "2: neither a resource nor an entry"),
        ([HEADER, ENTRY.replace("ALLOW)", "ALLOW")], "2: the line has no end: it was cut, or a terminal has wrapped"),
        ([HEADER, ENTRY.replace("DESCRIBE_CONFIGS", "UNKNOWN")], "2: Invalid operation UNKNOWN"),
        ([HEADER, ENTRY.replace("DESCRIBE_CONFIGS", "FLY")], "2: `operation`: `FLY` is not a value that Kafka knows"),
        ([HEADER.replace("TOPIC", "Topic"), ENTRY], "1: `resourceType`: `Topic` is not a value that Kafka knows"),
        (["Current ACLs for resource `?`:\n", ENTRY], "1: a resource that can't be read"),
        (
            ["Are you sure you want to remove ACLs: \n", " " + ENTRY],
            "1: neither a resource nor an entry",
        ),
        (
            ["Acl (pattern=x), entry=(principal=a), entry=(principal=b)) already exists.\n"],
            "1: expected one `, entry=(principal=`",
        ),
    ]:
        with subtests.test(lines=lines, problem=problem):
            assert problems_of("".join(lines).encode(), FORMAT)[0].startswith(problem)


def test_an_entry_never_goes_to_the_resource_of_another_block() -> None:
    text = HEADER + ENTRY + "\nCurrent ACLs for resource `ResourcePattern(what)`:\n" + ENTRY
    assert [each.partition(":")[0] for each in problems_of(text.encode())] == ["4"]


def is_clear(binding: AclBinding) -> bool:
    """Whether the writer takes it."""
    try:
        written(FORMAT, [binding])
    except FormatLimitError:
        return False
    return True


@pytest.mark.parametrize(
    "binding",
    [
        acl(principal="User:uid=1, host=db1"),
        acl(principal="User:a, operation=READ, x"),
        acl(principal="User:a, permissionType=ALLOW)"),
        acl(principal="User:(principal=User:b"),
        acl(principal="User:Current ACLs for resource `"),
        acl(host="a, host=b"),
        acl(name="a, name=b"),
        acl(name="a, patternType=LITERAL)`:"),
        acl(name="ResourcePattern("),
        acl(name="Adding ACLs for resource `x`:"),
    ],
    ids=str,
)
def test_a_name_that_holds_words_of_the_text_is_never_written(binding: AclBinding) -> None:
    with pytest.raises(FormatLimitError, match="kafka-acls text can't tell a name with `"):
        written(FORMAT, [acl(), binding])


def test_two_entries_on_a_line_are_no_acl(subtests: pytest.Subtests) -> None:
    one, other = (f"\t(principal=User:{each}, host=*, operation=READ, permissionType=DENY)" for each in ("*", "b"))
    owner = ' until 2026-12-01T18:00:00Z, owner "x"'
    for line, word in [
        (one + other, "(principal="),
        (one + " " + other, "(principal="),
        (one + owner + other + owner, "(principal="),
        (one + other.strip(), "(principal="),
        (one + other.replace("(principal=", "("), "host="),
        (one.replace(", host=*", ", host=*, host=*"), "host="),
        ("\t" + old_entry(acl()) + "\t" + old_entry(acl()), "permission for operations: "),
    ]:
        with subtests.test(line=line):
            (problem,) = problems_of(f"{HEADER}{line}\n\n".encode(), FORMAT)
            assert problem.startswith(f"2: `{word.strip()}")
            assert "comes twice, so it is unclear where the first entry ends; is a line end missing?" in problem


def test_two_resources_on_a_line_are_none(subtests: pytest.Subtests) -> None:
    attack = "ResourcePattern(resourceType=TOPIC, name=a, patternType=LITERAL), name=b, patternType=PREFIXED)"
    for line, problem in [
        (HEADER.rstrip() + HEADER.rstrip(), "1: `ACLs for resource `` comes twice"),
        (f"Current ACLs for resource `{attack}`:", "1: `name=` comes twice"),
        ("Current ACLs for resource `Topic:a`: Current ACLs for resource `Topic:b`:", "1: `ACLs for resource `` comes"),
        (HEADER.rstrip() + ENTRY.rstrip(), "1: a resource that can't be read"),
        (HEADER.rstrip().replace("TOPIC", "TOPC"), "1: `resourceType`: `TOPC` is not a value that Kafka knows"),
        (HEADER.rstrip().replace("Current", "Curent").replace(" ACLs", "ACLs"), "1: a resource that can't be read"),
        ("Current ACLs for resource `Group:LITERXL:a`:", "1: it is unclear whether this was printed with a pattern"),
        ("Current ACLs for resource `Group:PREFIXEDa`:", "1: it is unclear whether this was printed with a pattern"),
    ]:
        with subtests.test(line=line):
            # One mistake is told once, not for each entry.
            (found,) = problems_of(f"{line}\n{ENTRY}{ENTRY}\n".encode(), FORMAT)
            assert found.startswith(problem)


def test_what_was_copied_from_a_terminal_is_read(subtests: pytest.Subtests) -> None:
    old = OLD.replace("Topic:PREFIXED", "Topic:LITERAL").replace("orders-", "t")
    old_acl = ORDERS._replace(pattern_type=PatternType.LITERAL, resource_name="t")
    for text, expected in [
        (HEADER + ENTRY.replace("\t", " " * 8), ORDERS),
        (HEADER + ENTRY.replace("\t", " "), ORDERS),
        (HEADER + ENTRY.replace("\t", "\t \t"), ORDERS),
        ("  " + HEADER.replace("\n", "  \n") + ENTRY.replace("\n", "  \t\r\n") + "   \n", ORDERS),
        (old.replace(" \t", " " * 8), old_acl),
        (old.replace(" \t", "\t"), old_acl),
        ("\n  \n" + HEADER + ENTRY, ORDERS),
        ("\ufeff" + HEADER + ENTRY, ORDERS),
    ]:
        with subtests.test(text=text):
            assert recognised(text.encode()) is FORMAT
            assert bindings_of(text.encode()) == [expected]


def test_a_line_that_a_terminal_has_wrapped_is_told_once_with_the_cause() -> None:
    for at in range(1, len(ENTRY) - 2):
        for text in [HEADER + ENTRY[:at] + "\n" + ENTRY[at:] + ENTRY, HEADER[:-3] + "\n" + HEADER[-3:] + ENTRY]:
            problems = problems_of(text.encode(), FORMAT)
            assert problems
            assert at < len("\t(principal=") or len(problems) == 1
            assert at < len("\t(principal=") or "it was cut, or a terminal has wrapped it" in problems[0]


def test_a_host_at_the_very_end_of_an_old_text_may_be_cut() -> None:
    text = OLD.rstrip().replace("hosts: *", "hosts: 10.0.0.1")
    (problem,) = problems_of(text.encode(), FORMAT)
    assert problem.startswith("2: the text ends with this line, so its host may be cut")
    assert len(bindings_of(text.encode() + b" ")) == len(bindings_of(text.encode() + b"\n")) == 1


def test_it_is_recognised_by_its_first_line(subtests: pytest.Subtests) -> None:
    for text, is_this in [
        ("[2024-10-25 03:33:01,001] ERROR it broke (a.b.C)\n" + HEADER, True),
        (ENTRY, True),
        (HEADER.replace("Current", "Curent"), True),
        ('{"x": "\n' + HEADER + '"}', False),
        ("# comment\n" + HEADER, False),
        ("kind: a\n" + HEADER, False),
    ]:
        with subtests.test(text=text):
            try:
                assert (recognised(text.encode()) is FORMAT) is is_this
            except TextFault:
                assert not is_this


def test_the_entries_below_a_line_that_can_not_be_read_go_to_no_resource() -> None:
    broken = b"Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=\xff, patternType=LITERAL)`:\n"
    for line, problem in [(broken, "3: not UTF-8"), (broken.replace(b"\xff", b"\x1b[1mx"), "3: a terminal's escape")]:
        read = entries((HEADER + ENTRY).encode() + line + ENTRY.encode(), FORMAT)
        assert read[0] == (2, NewAcl(ORDERS))
        assert len(read) == 2
        assert f"{read[1][0]}: {read[1][1][0]}".startswith(problem)


def test_a_long_text_is_read_line_by_line() -> None:
    class Lines(io.RawIOBase):
        """A text without end, which nobody may read as a whole."""

        def __init__(self) -> None:
            self.given = 0

        @property
        def stream(self) -> io.RawIOBase:
            return self

        def readline(self, size: int | None = -1) -> bytes:
            assert size is not None
            assert 0 < size <= 1024 * 1024
            self.given += 1
            return HEADER.encode() if self.given == 1 else ENTRY.encode()

    found = FORMAT.read(Lines(), Reading())  # type: ignore[arg-type]  # only its lines are asked for
    assert [next(found) for _ in range(1_000)] == [(at, NewAcl(ORDERS)) for at in range(2, 1_002)]


def test_what_kafkas_own_classes_print_is_read_right() -> None:
    """The text comes from Kafka 4.3.1 (`kafka_acls_list.txt`; how it was made stands in `PrintAcls.java`)."""
    folder = Path(__file__).parent / "fixtures"
    text = (folder / "kafka_acls_list.txt").read_bytes()
    expected = bindings_of((folder / "kafka_acls_list.jsonl").read_bytes())
    assert len(expected) > 50
    unclear = [each for each in expected if not is_clear(each)]
    found = entries(text, FORMAT)
    assert [each.binding for _, each in found if isinstance(each, NewAcl)] == [
        each for each in expected if each not in unclear
    ]
    assert unclear
    problems = [problem for _, each in found if not isinstance(each, NewAcl) for problem in each]
    assert len(problems) >= len(unclear)
    assert all("comes twice, so it is unclear where" in each for each in problems)


# every version since 1.0, printed by the templates of its own AclCommand


TWO = [ORDERS, ORDERS._replace(host="10.1.2.3", permission_type=AclPermissionType.DENY)]
GROUP = AclBinding(
    ResourceType.GROUP, "g", PatternType.LITERAL, "User:b", "*", AclOperation.READ, AclPermissionType.ALLOW
)


def old_entry(each: AclBinding) -> str:
    """`kafka.security.auth.Acl.toString`, 1.0 to 2.3."""
    operation = "".join(map(str.capitalize, each.operation.name.split("_")))
    permission = each.permission_type.name.capitalize()
    return f"{each.principal} has {permission} permission for operations: {operation} from hosts: {each.host}"


def new_entry(each: AclBinding) -> str:
    """`AccessControlEntryData.toString`."""
    return (
        f"(principal={each.principal}, host={each.host}, operation={each.operation.name}, "
        f"permissionType={each.permission_type.name})"
    )


def camel(each: AclBinding) -> str:
    return "".join(map(str.capitalize, each.resource_type.name.split("_")))


RESOURCES: dict[str, Callable[[AclBinding], str]] = {
    "1.x": lambda each: f"{camel(each)}:{each.resource_name}",
    "2.0": lambda each: f"{camel(each)}:{each.pattern_type.name}:{each.resource_name}",
    "2.1": lambda each: (
        f"ResourcePattern(resourceType={each.resource_type.name}, name={each.resource_name}, "
        f"patternType={each.pattern_type.name})"
    ),
}
ENTRIES = {"1.x": old_entry, "2.0": old_entry, "2.1": new_entry}


def printed(verb: str, resource: str, entries: Sequence[str]) -> str:
    """Scala's `println` of 1.0 to 3.9: a blank before and behind each line end of its own."""
    lines = "\n".join("\t" + each for each in entries)
    return f"{verb} ACLs for resource `{resource}`: \n {lines} \n\n"


def test_what_each_version_prints_is_read_whole(subtests: pytest.Subtests) -> None:
    for verb in ["Current", "Adding"]:
        for resources, shapes in [("1.x", "1.x"), ("2.0", "2.0"), ("2.1", "2.0"), ("2.1", "2.1")]:
            with subtests.test(verb=verb, resources=resources, shapes=shapes):
                bindings = [*TWO, GROUP]
                if resources == "1.x":
                    bindings = [each._replace(pattern_type=PatternType.LITERAL) for each in bindings]
                *topic, group = bindings
                text = printed(verb, RESOURCES[resources](topic[0]), [ENTRIES[shapes](each) for each in topic])
                text += printed(verb, RESOURCES[resources](group), [ENTRIES[shapes](group)])
                for form in (
                    text,
                    text.replace("\n", "\r\n"),
                    "\ufeff" + text,
                    "[2020-02-29 23:59:59,123] WARN x (o.a.k.A$1)\n" + text,
                ):
                    assert recognised(form.removeprefix("\ufeff").encode()) is FORMAT
                    assert bindings_of(form.encode()) == bindings


def test_a_resource_without_acls_has_none() -> None:
    text = printed("Current", "Topic:a", []) + printed("Current", "Topic:b", [old_entry(acl())])
    assert bindings_of(text.encode()) == [acl("b")]


def test_what_the_tool_says_on_standard_error_is_passed_over_wherever_it_stands(subtests: pytest.Subtests) -> None:
    for noise in [
        "[2024-10-25 03:33:01,001] WARN The configuration 'x' isn't known. (org.apache.kafka.clients.AdminConfig)",
        "[2024-10-25 03:33:01,001] INFO [AdminClient clientId=adminclient-1] Node -1 (a.b.C$D$)",
        "Warning: support for ACL configuration directly through the authorizer is deprecated and will be removed.",
        "OpenJDK 64-Bit Server VM warning: If the number of processors is expected to increase from one",
        "Java HotSpot(TM) 64-Bit Server VM warning: Option UseConcMarkSweepGC was deprecated",
        "Picked up JAVA_TOOL_OPTIONS: -Xmx1g",
        "SLF4J: Class path contains multiple SLF4J bindings.",
        "SLF4J(W): No SLF4J providers were found.",
        "log4j:WARN No appenders could be found for logger (a.b).",
    ]:
        with subtests.test(noise=noise):
            text = f"{noise}\n{HEADER}{noise}\n{ENTRY}{noise}\n{ENTRY}\n{noise}\n"
            assert recognised(text.encode()) is FORMAT
            assert bindings_of(text.encode()) == [ORDERS, ORDERS]


def test_no_other_line_is_passed_over_and_none_that_looks_like_an_acl_is_to_be_removed(
    subtests: pytest.Subtests,
) -> None:
    for line, problem in [
        ("[2024-10-25 03:33:01,001] ERROR it broke (a.b.C)", "kafka-acls failed here"),
        ("[2024-10-25 03:33:01,001] FATAL it broke (a.b.C)", "kafka-acls failed here"),
        ("Error while executing ACL command: org.apache.kafka.common.errors.TimeoutException", "kafka-acls failed"),
        ("Error while adding ACLs: x", "kafka-acls failed"),
        ("\tat kafka.admin.AclCommand$.main(AclCommand.scala:74)", "neither a resource nor an entry of kafka-acls"),
        ("[2024-10-25 03:33:01,001] WARN cut off", "neither a resource nor an entry of kafka-acls"),
        ("[2024-10-25 03:33:01,001] WARN x" + ENTRY.rstrip() + " (a.b.C)", "neither a resource nor an entry as"),
        ("(principal=User:a, host=*, operation=READ, permissionType=DENY)", "neither a resource nor an entry as"),
        ("\t(principal=User:a, host=*, operation=READ, permissionType=DE", "the line has no end"),
        ("\t(principal=User:a, host=*, oper...", "the line has no end"),
        ("Current ACLs for resource `Topic:a`", "the line has no end"),
        ("\tUser:a hat Erlaubnis permission for operations: Read from hosts: *", "neither a resource nor an entry as"),
        ("\x1b[1m" + ENTRY.rstrip(), "a terminal's escape sequences"),
        (ENTRY.replace("CN", "\x1b[31mCN\x1b[m").rstrip("\n"), "a terminal's escape sequences"),
        (ENTRY.replace("CN", "\x9b31mCN").rstrip("\n"), "a terminal's escape sequences"),
        ('{"resource_type": "TOPIC"}', "neither a resource nor an entry of kafka-acls"),
        ("User:a,TOPIC,LITERAL,orders,READ,DENY,*", "neither a resource nor an entry of kafka-acls"),
    ]:
        with subtests.test(line=line, problem=problem):
            (found,) = problems_of(f"{HEADER}{ENTRY}{line}\n".encode(), FORMAT)
            assert found.startswith(f"3: {problem}")
            assert "remove" not in found


def test_a_group_of_1_x_that_is_called_like_a_pattern_type_is_not_taken_for_another() -> None:
    entry = [old_entry(GROUP)]
    text = printed("Current", "Topic:orders", entry) + printed("Current", "Group:PREFIXED:x", entry)
    (problem,) = problems_of(text.encode())
    assert problem.startswith("4: this resource and the one in line 1 were printed by two versions of Kafka")


@pytest.mark.parametrize("version", ["1.0.2", "2.0.1", "2.8.2", "3.9.1"])
def test_what_old_versions_really_print_is_read_whole(version: str) -> None:
    """`2>&1` of the version's own AclCommand in its jar, over an authorizer that keeps ACLs in a map: --add, --list."""
    text = (Path(__file__).parent / "fixtures" / f"kafka_acls_{version}.txt").read_bytes()
    assert recognised(text) is FORMAT
    found = bindings_of(text)
    assert {(each.resource_type.name, each.resource_name) for each in found} == {
        ("TOPIC", "orders"), ("GROUP", "g:1"), ("TRANSACTIONAL_ID", "t"), ("CLUSTER", "kafka-cluster"),
    }  # fmt: skip
    assert {
        (each.principal, each.host, each.operation.name, each.permission_type.name)
        for each in found
        if each.resource_name == "orders"
    } == {
        ("User:CN=a b, O=x", "*", "READ", "ALLOW"),
        ("User:CN=a b, O=x", "*", "DESCRIBE_CONFIGS", "ALLOW"),
        ("User:bob", "10.0.0.1", "READ", "DENY"),
        ("User:bob", "10.0.0.1", "DESCRIBE_CONFIGS", "DENY"),
    }
    entries = len([line for line in text.splitlines() if line.lstrip(b" ").startswith(b"\t")])
    assert len(found) == entries
