"""The feed's events as lines: what stands in them, and that no text of them moves a cursor or forges a line."""

import io
import json

import pytest

from app.client.watch import command
from app.formats.feed_events import Bookmark, decode
from tests.client_runs import Terminal

TOKEN = "5a6f9f10-94c5-4a1c-9a70-0d5b6f3c2e11:4"
ACL = {
    "id": "4f3e2d1c-6b7a-4859-9c0d-1e2f3a4b5c55",
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:alice",
    "host": "*",
    "operation": "READ",
    "permission_type": "ALLOW",
    "expires_at": None,
    "owner": None,
}


def record(kind: str = "AccessControlEntryRecord", **more: object) -> dict[str, object]:
    return {"kind": kind, "hash_version": 1, "actor": "User:admin", "comment": None, **more}


def transaction(*records: dict[str, object]) -> bytes:
    return json.dumps(
        {
            "type": "transaction",
            "token": TOKEN,
            "first_offset": 4,
            "last_offset": 3 + len(records),
            "recorded_at": "2026-11-23T06:00:00.123456Z",
            "hash": "00" * 32,
            "records": records,
        }
    ).encode()


def shown(line: bytes, out: io.StringIO | None = None, *, form: str = "text", bookmarks: bool = False) -> str:
    event = decode(line)
    assert event is not None
    out = io.StringIO() if out is None else out
    show = command._as_text if form == "text" else command._as_json
    show(out, bookmarks=bookmarks)(line, event)
    return out.getvalue()


def test_a_change_is_a_line() -> None:
    ending = {**ACL, "expires_at": "2026-12-01T18:00:00Z", "owner": "orders team"}
    text = shown(
        transaction(
            record(acl=ACL),
            record(acl=ending, comment="TICKET-17"),
            record("RemoveAccessControlEntryRecord", acl=ending, actor="User:a b"),
            record(acl=ACL),
            record("ConfigRecord", name="super.users", value="User:admin"),
            record("ConfigRecord", name="super.users", value=None),
            record("WeatherRecord"),
        )
    )
    at, terms = "2026-11-23T06:00:00Z", 'until 2026-12-01T18:00:00Z, owner "orders team"'
    assert text.splitlines() == [
        f"{at} User:admin + ALLOW User:alice READ on TOPIC orders",
        f'{at} User:admin ~ ALLOW User:alice READ on TOPIC orders {terms}, before: for ever, owner nobody "TICKET-17"',
        f'{at} "User:a b" - ALLOW User:alice READ on TOPIC orders {terms}',
        f"{at} User:admin + ALLOW User:alice READ on TOPIC orders",
        f'{at} User:admin = super.users: "User:admin"',
        f"{at} User:admin = super.users: back to its start-up value",
        f"{at} User:admin ? a WeatherRecord, which this klamm does not know",
    ]


@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_moves_a_terminals_cursor_or_makes_a_line_of_its_own(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    evil = "\x1b[2J\r\x07\x9b2K\u202e\u2028\x85 + ALLOW User:evil"
    acl = {**ACL, "resource_name": evil, "principal": f"User:{evil}"}
    if form == "json":
        # No ACL has these, and an event that has is not taken for one in words.
        acl |= {"host": evil, "owner": evil}
    line = transaction(
        record(acl=acl, actor=f"User:{evil}", comment=evil), record("ConfigRecord", name=evil, value=evil, comment=evil)
    )
    # As another writer of JSON might send it.
    line = json.dumps(json.loads(line), ensure_ascii=False).encode()
    text = shown(line, Terminal(), form=form)
    assert all(each.isprintable() for each in text.split("\n"))
    if form == "json":
        assert json.loads(text) == json.loads(line)
    else:
        assert sum(not each.startswith("    ") for each in text.splitlines()) == 2


def test_a_terminal_of_eighty_columns_is_never_overrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    acl = {**ACL, "resource_name": "n" * 300, "owner": "the team that has this"}
    text = shown(transaction(record(acl=acl, comment="c " * 100)), Terminal())
    assert max(map(len, text.splitlines())) <= 80
    assert all(each.startswith("    ") for each in text.splitlines()[1:])
    # A file gets a line a change, for grep.
    assert shown(transaction(record(acl=acl))).count("\n") == 1


def test_bookmarks_are_shown_to_who_asks() -> None:
    line = json.dumps({"type": "bookmark", "token": TOKEN, "hash": "00" * 32, "digest": None, "age_ms": 12}).encode()
    assert isinstance(decode(line), Bookmark)
    for form in ("text", "json"):
        assert shown(line, form=form) == ""
        assert TOKEN in shown(line, form=form, bookmarks=True)


def test_a_snapshot_is_listed() -> None:
    counts = {"cluster_id": "x", "acl_count": 1, "config_count": 2}
    events: list[dict[str, object]] = [
        {"type": "snapshot", "token": TOKEN, "hash": "00" * 32, "digest": None, **counts},
        {"type": "acls", "acls": [ACL]},
        {"type": "configs", "configs": {"super.users": "User:admin"}},
        {"type": "synced", "token": TOKEN, "hash": "00" * 32, "digest": None},
    ]
    assert [shown(json.dumps(each).encode()) for each in events] == [
        f"1 ACL and 2 properties as of {TOKEN}:\n",
        "  ALLOW User:alice READ on TOPIC orders\n",
        '  super.users: "User:admin"\n',
        "changes from here on:\n",
    ]
