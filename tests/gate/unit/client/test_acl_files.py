import gzip
import io
import json
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.client import acl_files
from app.client.acl_files import AclFile, AclFiles
from app.client.file_problems import MAX_PROBLEMS
from app.core.kafka.bindings import KEEP, AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.command_errors import UsageError
from app.formats.lines import MAX_LINE_BYTES
from app.formats.source import MAX_JSON_BYTES
from tests.updates import topic

GOOD = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "principal": "User:alice",
    "operation": "READ",
    "permission_type": "ALLOW",
}
LINE = json.dumps(GOOD).encode()
FULL = AclBinding(
    ResourceType.GROUP,
    'a "quoted": name, \\ and é\U0001f600',
    PatternType.PREFIXED,
    "User:CN=a:b",
    "10.0.0.0/8",
    AclOperation.DESCRIBE,
    AclPermissionType.DENY,
)
FULL_FIELDS = {
    "resource_type": "GROUP",
    "resource_name": FULL.resource_name,
    "pattern_type": "PREFIXED",
    "principal": "User:CN=a:b",
    "host": "10.0.0.0/8",
    "operation": "DESCRIBE",
    "permission_type": "DENY",
}


def line(**fields: object) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


def open_acls(path: str) -> AbstractContextManager[AclFile]:
    return AclFiles().open(path)


def read(path: Path) -> list[AclBinding]:
    with open_acls(str(path)) as file:
        bindings = [each.binding for each in file.additions()]
        assert file.check(lambda _: None) == len(bindings)
        return bindings


def told(path: Path) -> list[str]:
    """What the check says, without its first line and without the folder."""
    with open_acls(str(path)) as file, pytest.raises(UsageError) as refused:
        file.check(lambda _: None)
    first, *problems = str(refused.value).splitlines()
    assert first == "nothing was written; fix this first:"
    return [problem.removeprefix(f"{path.parent}{os.sep}") for problem in problems]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "acls"


def test_a_line_is_a_binding_with_the_defaults_of_create_acls(path: Path) -> None:
    path.write_bytes(LINE + b"\n" + json.dumps(FULL_FIELDS).encode() + b"\n")
    assert read(path) == [FULL, topic("orders")]  # which denies


@pytest.mark.parametrize("ascii_only", [True, False])
def test_escaped_or_not_a_text_is_the_same(path: Path, ascii_only: bool) -> None:  # noqa: FBT001 - a parameter
    path.write_text(json.dumps(FULL_FIELDS, ensure_ascii=ascii_only), encoding="utf-8")
    assert read(path) == [FULL]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + LINE + b"\n",
        LINE.replace(b", ", b"\t,\t") + b"\r\n",
        b"\n\r\n  \n" + LINE + b"\n\n",
        LINE,
        gzip.compress(LINE + b"\n", mtime=0),
        gzip.compress(b"\xef\xbb\xbf" + LINE + b"\r\n\r\n", mtime=0),
        gzip.compress(b"", mtime=0) + gzip.compress(LINE, mtime=0),
    ],
    ids=["mark", "crlf", "blank lines", "no last newline", "gzip", "all of it", "members"],
)
def test_how_editors_and_tools_leave_a_file_does_not_matter(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert read(path) == [topic("orders")]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_a_file_without_any_acl_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert told(path) == ["acls:1: it is empty"]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (b'{"a": 1', "not JSON: Expecting '}' (column 1)"),
        (LINE + b" x", f"not JSON: Extra data (column {len(LINE) + 2})"),
        (b"[1, 2]", "not a mapping; write its fields"),
        (b"null", "not a mapping; write its fields"),
        (LINE.replace(b"orders", b"\xff"), "not UTF-8; encode it as UTF-8"),
        (line(hots="*"), "`hots`: there is no such field; did you mean `host`?"),
        (line(resource_name=7), "`resource_name`: the value is not text; write it in quotes"),
        (line(host=None), "`host`: the value is not text; write it in quotes"),
        (line(pattern_type=["LITERAL"]), "`pattern_type`: the value is not text; write one"),
        (LINE[:-1] + b', "principal": "User:b"}', "`principal`: the key comes more than once; write it once"),
        (LINE[:-1] + b', "host": "*", "host": "1.2.3.4"}', "`host`: the key comes more than once; write it once"),
        (
            LINE[:-1] + b', "resource\\u005fname": "x"}',
            "`resource_name`: the key comes more than once; write it once",
        ),
        (
            line(resource_name='a\\"b')[:-1] + b', "operation": "WRITE"}',
            "`operation`: the key comes more than once; write it once",
        ),
        (
            line(operation="UNKNOWN"),
            (
                "`operation`: `UNKNOWN` is not a value that Kafka knows; write one of ALL, READ, WRITE, CREATE, "
                "DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, "
                "CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT"
            ),
        ),
        (
            line(permission_type="Deny"),
            "`permission_type`: `Deny` is not a value that Kafka knows; did you mean DENY?",
        ),
        (
            line(pattern_type="prefix"),
            "`pattern_type`: `prefix` is not a value that Kafka knows; did you mean PREFIXED?",
        ),
        (
            line(pattern_type="MATCH"),
            "`pattern_type`: `MATCH` is not a value that Kafka knows; write one of LITERAL, PREFIXED",
        ),
        (line(operation="read"), "`operation`: `read` is not a value that Kafka knows; did you mean READ?"),
        (line(resource_name=""), "Invalid empty resource name"),
        (line(resource_type="CLUSTER"), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (
            line(principal="alice"),
            (
                "Could not parse principal from `alice` "
                "(no colon is present separating the principal type from the principal name)"
            ),
        ),
        (line(resource_name="a\0b"), "'resourceName' field contains U+0000, which can't be stored; remove it"),
        (line(resource_name="x" * 32_768), "'resourceName' field is too long to be serialized"),
    ],
)
def test_a_bad_line_is_told_by_its_number_and_field(path: Path, bad: bytes, problem: str) -> None:
    path.write_bytes(b"\n".join([LINE, b"", bad, LINE]))
    assert told(path) == [f"acls:3: {problem}"]


def test_half_of_a_surrogate_pair_is_refused(path: Path) -> None:
    path.write_bytes(line(resource_name="\ud800"))
    (problem,) = told(path)
    assert "surrogate" in problem


def test_a_value_that_nests_too_deep_or_a_number_without_end_is_refused(path: Path) -> None:
    path.write_bytes(b"\n".join((b'{"a": ' + b"[" * 100_000, LINE, b'{"host": ' + b"9" * 5_000 + b"}")))
    assert told(path) == [
        "acls:1: a number is too long, or the nesting is too deep",
        "acls:3: a number is too long, or the nesting is too deep",
    ]


def test_all_that_is_wrong_with_a_line_is_told(path: Path) -> None:
    path.write_bytes(b'{"operation": 1, "x": 2}\n' + line(operation="a", resource_type="b"))
    problems = told(path)
    assert sorted(problem.partition("`: ")[0] for problem in problems) == [
        "acls:1: `operation",
        "acls:1: `permission_type",
        "acls:1: `principal",
        "acls:1: `resource_name",
        "acls:1: `resource_type",
        "acls:1: `x",
        "acls:2: `operation",
        "acls:2: `resource_type",
    ]


def test_the_check_stops_where_enough_is_wrong(path: Path) -> None:
    path.write_bytes(LINE + b"\n" + b"x\n" * 10_000)
    problems = told(path)
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1].endswith("acls: the check stopped here; there may be more")


def test_a_file_of_no_known_format_is_told_so_and_nothing_else(path: Path) -> None:
    path.write_bytes(b"x\n" * 10_000)
    with open_acls(str(path)) as file, pytest.raises(UsageError) as caught:
        file.check(lambda _: None)
    text = str(caught.value)
    assert text.startswith(f"`{path}` is in no format that Klamm recognises; name its format with ")
    assert text.count("\n") == 0


def test_what_a_file_says_does_nothing_to_a_terminal(path: Path) -> None:
    path.write_bytes(line(principal="\x1b[31m\u202eevil" + "x" * 10_000))
    (problem,) = told(path)
    assert "\\x1b[31m\\u202eevil" in problem
    assert problem.isprintable()
    assert len(problem) < 500


def test_a_line_may_be_as_long_as_the_longest_binding_and_not_without_end(path: Path) -> None:
    longest = json.dumps({**GOOD, "resource_name": "x" * 32_767, "principal": "User:" + "y" * 32_762}).encode()
    escaped = longest.replace(b"x", b"\\u0078").replace(b"y", b"\\u0079")
    path.write_bytes(b"\n".join([escaped, b" " * (2 * MAX_LINE_BYTES), LINE, b"{" * (3 * MAX_LINE_BYTES), LINE, b"x"]))
    assert told(path) == [
        "acls:2: the line is longer than 1048576 bytes; write one binding per line",
        "acls:4: the line is longer than 1048576 bytes; write one binding per line",
        "acls:6: not JSON: Expecting value (column 1)",
    ]


def test_reading_does_not_hold_the_file_in_memory(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as packed:
        for _ in range(100):
            packed.write((LINE + b"\n") * 1_000)
    with open_acls(str(path)) as file:
        assert sum(1 for _ in file.additions()) == 100_000
        assert file.position == file.size


# bodies of createAcls


def body(*bindings: object, **more: object) -> bytes:
    return json.dumps({**more, "bindings": list(bindings)}, indent=1).encode()


def test_the_bindings_of_a_create_acls_body_are_read(path: Path) -> None:
    context = {"principal": "User:admin", "client_address": "127.0.0.1"}
    path.write_bytes(b"\xef\xbb\xbf\n" + body(GOOD, FULL_FIELDS, context=context, timeout_ms=5))
    assert read(path) == [FULL, topic("orders")]  # which denies


@pytest.mark.parametrize(
    "content", [b'{"bindings": []}', b' {\n "bindings" : [ ] } \n', gzip.compress(body(), mtime=0)]
)
def test_a_body_without_any_binding_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert told(path)[0].startswith("acls:1: it holds no ACLs in the format klamm;")


def test_a_bad_binding_of_a_body_is_told_by_the_line_where_it_begins(path: Path) -> None:
    path.write_text('{"bindings": [\n' + json.dumps(GOOD) + ",\n\n" + json.dumps({**GOOD, "x": 1}) + ", 7]\n}")
    assert told(path) == [
        "acls:4: `x`: there is no such field; remove it, or read the file without it: --pass-over bindings.x",
        "acls:4: `bindings`: not a mapping; write its fields",
    ]


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        (b'{"bindings": [],\n"bindings": []}', ["2: `bindings`: the key comes more than once; write it once"]),
        (
            b'{"bindings": [],\n"actor": "x"}',
            ["2: `actor`: there is no such field; remove it, or read the file without it: --pass-over actor"],
        ),
        (b'{"bindings": {}}', ["1: `bindings`: not a list; write one"]),
        (b'{"bindings": [1', ["1: not JSON: Expecting ']' (column 16)"]),
        (b'{"bindings": [\n' + LINE + b",\n]}", ["3: not JSON: Expecting value (column 1)"]),
        (b'{"bindings": []\n} {', ["2: not JSON: Extra data (column 3)"]),
        (b'{"bindings": []\n', ["2: not JSON: Expecting '}' (column 1)"]),
        (b'{"bindings": []}\n\xff', ["2: not UTF-8; encode it as UTF-8"]),
        (
            b'{"context": ' + b"[" * 100_000,
            ["1: a number is too long, or the nesting is too deep"],
        ),
    ],
)
def test_a_body_that_is_none_is_told(path: Path, content: bytes, problems: Sequence[str]) -> None:
    path.write_bytes(content)
    assert told(path)[: len(problems)] == [f"acls:{problem}" for problem in problems]


def test_a_body_without_end_is_refused(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b'{"bindings": [')
        file.truncate(MAX_JSON_BYTES + 1)
    assert told(path) == ["acls:1: JSON of more than 67108864 bytes; write one binding per line instead"]


# files


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"`.*missing` can't be read \(No such file or directory\)"),
        open_acls(str(tmp_path / "missing")),
    ):
        pass
    with pytest.raises(UsageError, match="Is a directory"), open_acls(str(tmp_path)):
        pass


@pytest.mark.parametrize(
    "packed", [gzip.compress(LINE, mtime=0)[:-4], b"\x1f\x8bnonsense", gzip.compress(LINE, mtime=0)[:12] + b"x" * 50]
)
def test_a_file_that_can_not_be_unpacked_is_told(path: Path, packed: bytes) -> None:
    path.write_bytes(packed)
    with open_acls(str(path)) as file, pytest.raises(UsageError, match="can't be read"):
        file.check(lambda _: None)


def test_standard_input_is_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(LINE + b"\n" + LINE)))
    with open_acls("-") as file:
        assert file.name == "<standard input>"
        assert file.check(lambda _: None) == 2
        assert list(file.additions()) == [NewAcl(topic("orders"))] * 2


def test_a_pipe_is_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writing = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(gzip.compress(LINE, mtime=0),))
    writing.start()
    assert read(tmp_path / "pipe") == [topic("orders")]
    writing.join()


@pytest.mark.parametrize("name", ["/dev/zero", "-", "pipe"])
def test_what_does_not_end_is_read_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(acl_files, "MAX_COPIED_BYTES", 1_000_000)
    path = str(tmp_path / name)
    if name == "pipe":
        os.mkfifo(path)

        def write() -> None:
            with suppress(BrokenPipeError), Path(path).open("wb", 0) as pipe:
                while True:
                    pipe.write(LINE + b"\n")

        writing = threading.Thread(target=write)
        writing.start()
    with Path("/dev/zero").open("rb") as zeros:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=zeros))
        told = r"goes on after 1,000,000 bytes, .*; write it to a file, and name that"
        with pytest.raises(UsageError, match=told), open_acls(path if name == "pipe" else name):
            pass
    if name == "pipe":
        writing.join()


def test_a_file_that_was_changed_after_its_check_is_told(path: Path) -> None:
    path.write_bytes(LINE + b"\n" + LINE)
    with open_acls(str(path)) as file:
        assert file.check(lambda _: None) == 2
        path.write_bytes(LINE + b"\nx")
        acls = file.additions()
        assert next(acls) == NewAcl(topic("orders"))
        with pytest.raises(UsageError, match=r"acls:2: the file changed while it was being read \(not JSON"):
            next(acls)


def test_the_check_reports_how_far_it_has_come(path: Path) -> None:
    path.write_bytes((LINE + b"\n") * 5_000)
    positions: list[int] = []
    with open_acls(str(path)) as file:
        file.check(positions.append)
        assert len(positions) == 5
        assert positions == sorted(positions)
        assert positions[-1] == file.size


@pytest.mark.parametrize("checked", [False, True])
def test_every_deny_comes_before_the_rest(tmp_path: Path, *, checked: bool) -> None:
    path = tmp_path / "acls.jsonl"
    permissions = ["ALLOW", "DENY", "ALLOW", "ALLOW", "DENY"]
    lines = [line(resource_name=f"t{at}", permission_type=each) for at, each in enumerate(permissions)]
    path.write_bytes(b"\n".join(lines))
    with open_acls(str(path)) as file:
        if checked:
            file.check(lambda _: None)
        assert [each.binding.resource_name for each in file.additions()] == ["t1", "t4", "t0", "t2", "t3"]


def test_what_is_added_takes_no_end_or_owner_away(path: Path) -> None:
    ends = "2999-12-01T18:00:00Z"
    terms: list[dict[str, object]] = [
        {"expires_at": None, "owner": None},
        {"expires_at": ends, "owner": None},
        {"owner": "x"},
    ]
    path.write_bytes(b"\n".join(line(**each) for each in terms))
    with open_acls(str(path)) as file:
        found = [(each.expires_at, each.owner) for each in file.additions()]
        assert next(file.acls()).expires_at is None
    assert found == [(KEEP, KEEP), (datetime(2999, 12, 1, 18, tzinfo=UTC), KEEP), (KEEP, "x")]


@pytest.mark.parametrize("content", [b"", LINE, LINE + b"\n" + LINE + b"\n" + line(permission_type="DENY")])
def test_a_file_that_has_more_or_less_than_at_its_check_is_told(path: Path, content: bytes) -> None:
    """A DENY that was written behind the others would never be read: they have been passed already."""
    path.write_bytes(LINE + b"\n" + LINE)
    with open_acls(str(path)) as file:
        assert file.check(lambda _: None) == 2
        path.write_bytes(content)
        with pytest.raises(
            UsageError, match=r"acls:1: the file changed while it was being read \(it has \d ACLs?, not 2"
        ):
            list(file.additions())
