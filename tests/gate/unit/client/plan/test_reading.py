"""Files of wanted ACLs that can't be read: one line each, which says the way out."""

import gzip
import os
from pathlib import Path

import pytest

from app.client.plan.wanted import read_wanted
from app.formats.command_errors import UsageError
from app.formats.file_flags import FileFlags
from app.formats.registry import FORMAT_NAMES
from tests.updates import topic, wanted

LINE = '{"resource_type": "TOPIC", "resource_name": "t0", "principal": "User:a", "operation": "READ", '
LINE += '"permission_type": "ALLOW"}\n'
LIKE_NOTHING = f"is in no format that Klamm recognises; name its format with --format: {', '.join(FORMAT_NAMES)}"


def refusal(path: Path | str, format_name: str | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        read_wanted([str(path)], FileFlags(format_name))
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"some text\n" * 1_000,
        b"<!doctype html>\n<html>\n</html>\n",
        b"\x00\x01\x02\n" * 100,
        b"\xef\xbb\xbfsome text\n",
        gzip.compress(b"some text\n" * 1_000),
    ],
    ids=["text", "html", "binary", "marked", "gzip"],
)
def test_a_file_of_no_known_format_is_told_so_and_nothing_else(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "acls"
    path.write_bytes(content)
    assert refusal(path) == f"`{path}` {LIKE_NOTHING}"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (LINE.encode("utf-16"), "is UTF-16; save it as UTF-8"),
        (b"PK\x03\x04 and more", "is compressed with zip; decompress it first"),
        (b"\xfd7zXZ\x00", "is compressed with xz; decompress it first"),
        (
            b"{{- if .Values.users }}\nkind: KafkaUser\n",
            "looks like a template that nothing has filled in; give what is made of it",
        ),
        (b"{% for user in users %}\n{}\n", "looks like a template that nothing has filled in; give what is made of it"),
    ],
)
def test_a_file_in_another_coat_is_told_what_it_is(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "acls"
    path.write_bytes(content)
    assert refusal(path) == f"`{path}` {told}"


def test_a_known_format_is_told_line_by_line_and_so_is_one_that_was_named(tmp_path: Path) -> None:
    path = tmp_path / "acls"
    path.write_text(f"{LINE}x\n")
    assert refusal(path).startswith(f"nothing was written; fix this first:\n{path}:2: not JSON")
    path.write_text("x\n")
    assert f"{path}:1: not JSON" in refusal(path, "jsonl")


def test_json_lines_are_known_by_their_first_line_even_if_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "acls"
    for first in ('{"resource_type": "TOPIC", "resource_na\n', '{"operation": 1}\n', "{}\n", '\n\n{"resource_type"\n'):
        path.write_text(f"{first}{LINE}")
        assert "fix this first" in refusal(path), first


def test_what_can_be_read_once_only_is_kept() -> None:
    reading, writing = os.pipe()
    os.write(writing, LINE.encode())
    os.close(writing)
    assert read_wanted([f"/dev/fd/{reading}"]).acls == wanted([topic("t0", principal="User:a")])
    os.close(reading)


def test_what_is_no_file_is_told_so(tmp_path: Path) -> None:
    assert refusal(tmp_path / "absent") == f"`{tmp_path / 'absent'}` can't be read (No such file or directory)"


def test_a_name_of_a_file_does_nothing_to_a_terminal() -> None:
    assert refusal("\x1b[2J\nx").isprintable()


@pytest.mark.parametrize(
    ("content", "read_as"),
    [
        (b'{"bindings": []}', "klamm"),
        (b'{"data": []}', "confluent"),
        (b"Principal,ResourceType,PatternType,ResourceName,Operation,PermissionType,Host\n", "csv"),
        (b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "strimzi"),
        (b'{"resource": {"kafka_topic": {"a": {}}}}', "terraform"),
        (b"Current ACLs for resource `Topic:a`: \n  \n\n", "kafka-acls"),
    ],
)
def test_a_file_without_any_acl_is_no_plan(tmp_path: Path, content: bytes, read_as: str) -> None:
    """It would be the wish to have none, and `apply --prune` would grant it."""
    path = tmp_path / "acls"
    path.write_bytes(content)
    for format_name in (None, read_as):
        assert f"{path}:1: it holds no ACLs in the format {read_as}" in refusal(path, format_name)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b"# none yet\n---\n", gzip.compress(b"", mtime=0)])
def test_a_file_with_nothing_in_it_is_no_plan(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "acls"
    path.write_bytes(content)
    assert f"{path}:1: it is empty" in refusal(path)


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        ('{"acls": [{"topic": "orders"}]}', "field is `acls`"),
        ('{"resources": {"kafka_acl": {}}}', "field is `resources` (did you mean `resource`?)"),
        (
            "apiVerson: v1\nknd: KafkaUser\n",
            "fields are `apiVerson` (did you mean `apiVersion`?), `knd` (did you mean ",
        ),
        ('[{"principle": 1, "host": 2}]', "fields are `principle`, `host`"),
        ('{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7}', "fields are `a`, `b`, `c`, `d`, `e` and 2 more;"),
    ],
)
def test_a_file_of_no_known_format_is_told_by_its_outermost_fields(tmp_path: Path, content: str, fields: str) -> None:
    path = tmp_path / "acls"
    path.write_text(content)
    text = refusal(path)
    assert text.startswith(f"`{path}` is in no format that Klamm recognises: its outermost {fields}")
    assert "\n" not in text


CONFLUENT_TABLE = """\
    Principal   | Permission | Operation | Host | Resource Type | Resource Name | Pattern Type  
----------------+------------+-----------+------+---------------+---------------+---------------
  User:sa-12345 | ALLOW      | READ      | *    | TOPIC         | test-topic    | LITERAL       
"""  # noqa: W291 - as it is printed
RPK_TABLE = """\
PRINCIPAL  HOST  RESOURCE-TYPE  RESOURCE-NAME  RESOURCE-PATTERN-TYPE  OPERATION  PERMISSION  ERROR
User:bar   *     TOPIC          foo            LITERAL                READ       ALLOW       
"""  # noqa: W291 - as it is printed


@pytest.mark.parametrize(
    ("content", "command"),
    [
        (CONFLUENT_TABLE, "confluent kafka acl list --output json"),
        (CONFLUENT_TABLE.replace("| Host ", ""), "confluent kafka acl list --output json"),
        (f"+---+\n|{CONFLUENT_TABLE}", "confluent kafka acl list --output json"),
        (RPK_TABLE, "rpk security acl list --format json"),
        (f"MATCHES\n=======\n{RPK_TABLE}", "rpk security acl list --format json"),
        (f"FILTERS\n=======\n{RPK_TABLE}", "rpk security acl list --format json"),
    ],
)
def test_a_table_for_people_is_refused_with_the_command_that_lists_the_acls_whole(
    tmp_path: Path, content: str, command: str
) -> None:
    path = tmp_path / "acls"
    path.write_text(content)
    assert f"; list the ACLs with `{command}`" in refusal(path)
