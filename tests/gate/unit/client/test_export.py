import argparse
import io
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.client import export
from app.client.http.replies import ServiceError
from app.formats.acl_bodies import terms_of
from app.formats.command_errors import UsageError
from app.formats.registry import FORMATS, AclFormat, format_named
from tests.acl_sets import acls_of, bindings_of
from tests.scripted_server import Answer, ScriptedServer, reply

FIELDS = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:alice",
    "host": "*",
    "operation": "READ",
    "permission_type": "ALLOW",
}


def listing(*acls: dict[str, str]) -> Answer:
    return reply(acls=[{"id": str(UUID(int=1)), **FIELDS, **each} for each in acls], next_cursor=None, token="e:7")


class Terminal(io.StringIO):
    """Standard output that somebody looks at."""

    def isatty(self) -> bool:
        return True


def run(server: ScriptedServer, *words: str, out: io.StringIO | None = None) -> str:
    parser = argparse.ArgumentParser()
    export.add_arguments(parser)
    out = io.StringIO(newline="") if out is None else out
    arguments = parser.parse_args([*words, "--klamm", server.url, "--as", "User:admin"])
    assert export.run(arguments, out) == 0
    return out.getvalue()


def asked(server: ScriptedServer) -> dict[str, Any]:
    found: dict[str, Any] = server.seen[0].body["filter"]
    return found


@pytest.mark.parametrize("name", [each.name for each in FORMATS])
def test_every_format_comes_out_on_standard_output(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedServer(listing({}, {"operation": "WRITE"})) as server:
        text = run(server, "--format", name)
    found = bindings_of(text.encode(), format_named(name))
    assert [(each.resource_name, each.operation.name) for each in found] == [("orders", "READ"), ("orders", "WRITE")]
    assert capsys.readouterr().err == "2 ACLs as of token e:7\n"


def test_without_a_name_it_is_json_lines() -> None:
    with ScriptedServer(listing({})) as server:
        assert run(server) == (
            '{"resource_type": "TOPIC", "resource_name": "orders", "pattern_type": "LITERAL", '
            '"principal": "User:alice", "host": "*", "operation": "READ", "permission_type": "ALLOW", '
            '"expires_at": null, "owner": null}\n'
        )


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_ends_and_owners_are_written_or_counted_as_left_out(
    each: AclFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = {"expires_at": "2999-12-01T18:00:00Z", "owner": 'orders, "é" =team'}
    with ScriptedServer(listing({}, {"operation": "WRITE", **terms})) as server:
        raw = run(server, "--format", each.name).encode()
    acls = acls_of(raw, each)
    err = capsys.readouterr().err
    if each.says_terms:
        assert [terms_of(acl) for acl in acls] == [{"expires_at": None, "owner": None}, terms]
        assert err == "2 ACLs as of token e:7\n"
    else:
        assert [terms_of(acl) for acl in acls] == [{}, {}]
        assert err.endswith(
            f"left out: the ends and owners of 1 ACL, which --format {each.name} can't express "
            "(klamm, csv, jsonl can)\n"
        )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {"resource_type": "ANY", "resource_name": None, "pattern_type": "ANY", "principal": None}),
        (["--principal", "User:a"], {"principal": "User:a"}),
        (["--topic", "t"], {"resource_type": "TOPIC", "resource_name": "t", "pattern_type": "ANY"}),
        (["--group", "*"], {"resource_type": "GROUP", "resource_name": "*"}),
        (["--transactional-id", "x"], {"resource_type": "TRANSACTIONAL_ID", "resource_name": "x"}),
        (["--user-principal", "User:b"], {"resource_type": "USER", "resource_name": "User:b"}),
        (["--cluster"], {"resource_type": "CLUSTER", "resource_name": "kafka-cluster"}),
        (["--topic", "t", "--resource-pattern-type", "match"], {"resource_name": "t", "pattern_type": "MATCH"}),
        (["--resource-pattern-type", "PREFIXED"], {"resource_name": None, "pattern_type": "PREFIXED"}),
    ],
)
def test_the_filters_are_the_services(words: list[str], expected: dict[str, object]) -> None:
    with ScriptedServer(listing()) as server:
        run(server, *words)
        found = asked(server)
    assert {name: found[name] for name in expected} == expected
    assert (found["host"], found["operation"], found["permission_type"]) == (None, "ANY", "ANY")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--format", "xml"],
            "--format: `xml` is not a format; the formats are klamm, rpk, confluent, csv, kafka-acls",
        ),
        (["--resource-pattern-type", "MATCH"], "--resource-pattern-type MATCH needs a name"),
        (["--force"], "--force replaces a file; name the file with --output"),
        (["--principal", "alice"], "`alice` is not a principal"),
        (["--output", "."], "--output: `.` is not a regular file"),
        (["--output", "/dev/null"], "--output: `/dev/null` is not a regular file"),
        (["--output", "missing/x"], "--output: there is no folder"),
    ],
)
def test_what_was_asked_for_wrongly_is_told_before_the_service_is_asked(
    words: list[str], told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with ScriptedServer(listing()) as server:
        with pytest.raises(UsageError) as refused:
            run(server, *words)
        assert server.seen == []
    assert str(refused.value).startswith(told)


def test_a_file_is_written_whole_and_not_over_another(tmp_path: Path) -> None:
    target = tmp_path / "acls.csv"
    words = ("--format", "csv", "--output", str(target))
    with ScriptedServer(listing({"principal": "User:CN=a, O=b"})) as server:
        assert run(server, *words) == ""
        first = target.read_bytes()
        assert first.endswith(b'\r\n"User:CN=a, O=b",TOPIC,LITERAL,orders,READ,ALLOW,*\r\n')
        assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~_umask()
        target.write_text("mine")
        with pytest.raises(UsageError, match="exists already; name another file, or replace it with --force"):
            run(server, *words)
        assert target.read_text() == "mine"
        run(server, *words, "--force")
    assert target.read_bytes() == first
    assert names_in(tmp_path) == ["acls.csv"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "acls"
    target.write_text("mine")
    target.chmod(mode)
    with ScriptedServer(listing({})) as server:
        run(server, "--output", str(target), "--force")
    assert target.read_text() != "mine"
    assert stat.S_IMODE(target.stat().st_mode) == mode


def test_a_link_is_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "there", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with ScriptedServer(listing({})) as server:
        run(server, "--output", str(link), "--force")
    assert link.is_symlink()
    assert target.read_text().startswith('{"resource_type"')


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_comes_meanwhile_is_left_alone(
    links: bool,  # noqa: FBT001 - a parameter
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = tmp_path / "acls"
    link = os.link

    def late(source: Path, destination: Path) -> None:
        target.write_text("theirs")
        if not links:
            raise PermissionError(1, "Operation not permitted")
        link(source, destination)

    monkeypatch.setattr(os, "link", late)
    with ScriptedServer(listing({})) as server, pytest.raises(UsageError, match="was created in the meantime"):
        run(server, "--output", str(target))
    assert target.read_text() == "theirs"
    assert names_in(tmp_path) == ["acls"]


def test_a_file_system_without_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    with ScriptedServer(listing({})) as server:
        run(server, "--output", str(tmp_path / "acls"))
    assert names_in(tmp_path) == ["acls"]


def test_a_folder_that_can_not_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with ScriptedServer(listing({})) as server, pytest.raises(UsageError, match=r"can't write .* \(No space left on"):
        run(server, "--output", str(tmp_path / "acls"))
    assert names_in(tmp_path) == []


def test_a_limit_of_the_format_is_told_and_no_file_is_left(tmp_path: Path) -> None:
    with ScriptedServer(listing({}, {"principal": "User:CN=a, O=b"})) as server, pytest.raises(UsageError) as refused:
        run(server, "--format", "strimzi", "--output", str(tmp_path / "users.yaml"))
    assert str(refused.value).startswith("--format strimzi: Strimzi makes principals from resource names")
    assert 'ALLOW "User:CN=a, O=b" from * READ on TOPIC LITERAL orders' in str(refused.value)
    assert names_in(tmp_path) == []


def test_an_acl_with_a_word_of_the_future_is_never_written_as_another() -> None:
    with (
        ScriptedServer(listing({"operation": "FLY"})) as server,
        pytest.raises(UsageError, match="or that this version does not know"),
    ):
        run(server)


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


@pytest.mark.parametrize("name", [each.name for each in FORMATS])
@pytest.mark.parametrize("field", ["resource_name", "principal", "host"])
def test_no_format_gives_a_terminal_what_it_would_obey(name: str, field: str) -> None:
    out = Terminal(newline="")
    with ScriptedServer(listing({}, {field: "User:a\x1b]0;owned\x07\x08"})) as server, suppress(UsageError):
        run(server, "--format", name, out=out)
    assert not set(out.getvalue()) & set("\x1b\x07\x08")


@pytest.mark.parametrize("name", ["csv", "kafka-acls"])
def test_a_format_without_escapes_is_refused_at_a_terminal(name: str) -> None:
    out = Terminal(newline="")
    with (
        ScriptedServer(listing({"host": "\x07"})) as server,
        pytest.raises(UsageError, match="with --output") as refused,
    ):
        run(server, "--format", name, out=out)
    assert out.getvalue() == ""
    assert str(refused.value).isprintable()


def test_csv_goes_to_a_terminal_if_that_would_obey_none_of_it() -> None:
    with ScriptedServer(listing({})) as server:
        assert run(server, "--format", "csv", out=Terminal(newline="")).endswith(
            "User:alice,TOPIC,LITERAL,orders,READ,ALLOW,*\r\n"
        )


def test_the_feeds_snapshot_is_written_whole_or_not_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, words = tmp_path / "acls", ("--format", "feed", "--output", str(tmp_path / "acls"))
    begin = {"type": "snapshot", "token": "e:7", "hash": "00", "digest": None, "cluster_id": None}
    whole = [
        {**begin, "acl_count": 0, "config_count": 0},
        {"type": "configs", "configs": {}},
        {"type": "synced", "token": "e:7", "hash": "00", "digest": None},
    ]
    text = "".join(f"{json.dumps(each)}\n" for each in whole)
    ended = text[: text.index('{"type": "synced')] + '{"type": "end", "token": null, "reason": "reload"}\n'
    for body, told in (
        (ended, r"ended the snapshot early \(reload\)"),
        (text[:-30], "closed the connection during the snapshot"),
    ):
        with ScriptedServer(Answer(body=body.encode())) as server, pytest.raises(ServiceError, match=told):
            run(server, *words)
        assert not target.exists()
    with ScriptedServer(Answer(body=text.encode())) as server:
        assert run(server, *words) == ""
    assert target.read_text() == text
    assert capsys.readouterr().err == "all ACLs and properties as of token e:7; klamm verify checks them\n"
    with ScriptedServer(Answer(body=b"{}\n")) as server:
        with pytest.raises(ServiceError, match="does not answer like Klamm"):
            run(server, "--format", "feed")
        with pytest.raises(UsageError, match="can only be verified as a whole; leave --principal"):
            run(server, "--format", "feed", "--topic", "a")
