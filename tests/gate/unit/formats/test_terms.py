"""Ends and owners in files: said, not said, said to be none, and said wrongly."""

import io
import json
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from app.client.acls.meaning import Pattern
from app.client.acls.text import Show, current_acls, on_one_line
from app.client.words import harmless
from app.core.kafka.bindings import KEEP, NewAcl
from app.formats.registry import FORMATS, format_named
from tests.acl_sets import acls_of, problems_of
from tests.updates import topic

END = datetime(2999, 12, 1, 18, tzinfo=UTC)
ODD = 'a, "b" \\ \u202e=é'
OWN = [each for each in FORMATS if each.says_terms]
SETS = {
    "all": [NewAcl(topic("a"), END, "orders team"), NewAcl(topic("b"), None, ODD), NewAcl(topic("c"), END, None)],
    "formula": [NewAcl(topic("a"), None, "=1+1"), NewAcl(topic("b"), None, None)],
}
GOOD = {
    "resource_type": "TOPIC",
    "resource_name": "a",
    "principal": "User:alice",
    "operation": "READ",
    "permission_type": "ALLOW",
}


def line(**fields: object) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


def test_terms_come_back_as_they_were_written(subtests: pytest.Subtests) -> None:
    for acls in SETS.values():
        for acl_format in OWN:
            with subtests.test(acls=acls, acl_format=acl_format):
                out = io.StringIO(newline="")
                acl_format.write(acls, out)
                assert acls_of(out.getvalue().encode()) == acls


def test_what_is_not_said_is_left_as_it_is() -> None:
    assert acls_of(line()) == [NewAcl(topic("a"))]
    assert acls_of(line(owner=None)) == [NewAcl(topic("a"), KEEP, None)]
    without = b"Principal,ResourceType,PatternType,ResourceName,Operation,PermissionType,Host\n"
    assert acls_of(without + b"User:alice,TOPIC,LITERAL,a,READ,ALLOW,*\n") == [NewAcl(topic("a"))]
    owners = without.replace(b",Host", b",Host,Owner")
    assert acls_of(owners + b"User:alice,TOPIC,LITERAL,a,READ,ALLOW,*,\n") == [NewAcl(topic("a"), KEEP, None)]


def test_without_any_terms_csv_has_the_columns_that_other_tools_know() -> None:
    out = io.StringIO(newline="")
    format_named("csv").write([NewAcl(topic("a"), None, None)], out)
    assert out.getvalue().splitlines()[0].count(",") == 6


def test_times_of_any_offset_are_understood_and_meant_in_utc() -> None:
    (acl,) = acls_of(line(expires_at="2999-12-01T19:30:00+01:30"))
    assert acl.expires_at == END


def test_terms_that_create_acls_would_refuse_are_told(subtests: pytest.Subtests) -> None:
    cases: Iterable[tuple[dict[str, object], str]] = [
        ({"expires_at": "tomorrow"}, "`expires_at`: `tomorrow` is not a time; write date, time and offset from UTC"),
        ({"expires_at": "2026-12-01"}, "`expires_at`: `2026-12-01` is not a time"),
        ({"expires_at": "2026-12-01T18:00:00"}, "is not a time; write date, time and offset from UTC"),
        ({"expires_at": "2026-12-01T18:00:00.5Z"}, "expires_at must be a whole second"),
        ({"expires_at": "9999-12-31T23:59:59-01:00"}, "`expires_at`: the time is outside the years 1 to 9999"),
        ({"expires_at": ""}, "`expires_at`: `` is not a time"),
        ({"expires_at": 1796148000}, "`expires_at`: the value is not text; write it in quotes"),
        ({"owner": 7}, "`owner`: the value is not text; write it in quotes"),
        ({"owner": ""}, "owner must not be empty; leave it out, or send null"),
        ({"owner": "x" * 201}, "owner has 201 characters, but may have at most 200"),
        ({"owner": "a\nb"}, "owner contains U+000A"),
        ({"Owner": "a"}, "`Owner`: there is no such field"),
    ]
    for fields, told in cases:
        with subtests.test(fields=fields, told=told):
            (problem,) = problems_of(line(**fields), format_named("jsonl"))
            assert told in problem


@pytest.mark.parametrize(
    "text",
    [
        b'"owner": null, "owner": null',
        b'"owner": "a", "owner": null',
        b'"owner": null, "owner": "a"',
        b'"expires_at": null, "expires_at": "2999-12-01T18:00:00Z"',
    ],
)
def test_a_term_that_comes_twice_is_told(text: bytes) -> None:
    (problem,) = problems_of(line()[:-1] + b", " + text + b"}", format_named("jsonl"))
    assert "the key comes more than once" in problem


@pytest.mark.parametrize("show", [on_one_line, harmless])
def test_a_listing_of_klamm_acls_reads_back_with_its_notes(show: Show) -> None:
    acls = [*SETS["all"], NewAcl(topic("d"), None, "permissionType=ALLOW) until 2000-01-01T00:00:00Z")]
    text = "".join(current_acls(Pattern.of(acl.binding), [acl], show) for acl in acls)
    assert ' until 2999-12-01T18:00:00Z, owner "orders team"\n' in text
    assert all(each.isprintable() for each in text.replace("\t", "").split("\n"))
    found = acls_of(text.encode())
    assert [(each.binding, each.expires_at or KEEP, each.owner or KEEP) for each in acls] == [
        (each.binding, each.expires_at, each.owner) for each in found
    ]


def test_a_note_that_is_none_is_no_acl() -> None:
    header = "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=a, patternType=LITERAL)`:\n"
    entry = "\t(principal=User:a, host=*, operation=READ, permissionType=ALLOW)"
    for note in (" until tomorrow", " owner x", ' owner "x', " until", ' owner "\\x"', " for ever"):
        (problem,) = problems_of(f"{header}{entry}{note}\n".encode())
        assert "looks like one" in problem, note
    (problem,) = problems_of(f"{header}{entry} until 2026-13-01T00:00:00Z\n".encode())
    assert "is not a time" in problem
