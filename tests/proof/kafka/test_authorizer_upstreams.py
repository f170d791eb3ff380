"""The broker's own authorizer before upstreams that fail, lag, lie or know more than it does."""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from app.core.digest import digest_of as digest_over
from app.core.records import ConfigRecord, record_hash
from app.formats.feed_events import encode
from app.formats.feed_values import digest_of, record_fields, transaction_json
from tests.fake_upstream import LATER_EPOCH, NOW, Told, stream
from tests.klamm import wait_until
from tests.proof.kafka.authorizer import Authorizer, Host
from tests.proof.kafka.upstream import changed, changed_record, one_after_the_other, repeating, unavailable, upstream
from tests.scripted_server import ScriptedServer, Step, problem

_FIRST, _SECOND = "orders", "orders-2"
_LINE_BYTES = 80 << 20
_SMALL_VALUES = 8 << 20
_MANY = 1_000
_LOST = problem(409, "TOKEN_EPOCH_MISMATCH", "the position is no part of the history")


@contextmanager
def _followed(authorizer: Authorizer, folder: Path, *servers: ScriptedServer, **settings: str) -> Iterator[Host]:
    with ExitStack() as stack:
        urls = [stack.enter_context(server).url for server in servers]
        yield stack.enter_context(Host(authorizer, folder, klamm_urls=",".join(urls), **settings))


def _fresh(told: Told, *before: bytes) -> Step:
    """A stream of the state that this history has come to, and of bookmarks."""
    return repeating([*before, told.bookmark()], told.bookmark)


def test_a_stream_without_bookmarks_is_left_whatever_else_comes(authorizer: Authorizer, tmp_path: Path) -> None:
    told, other = Told(), Told()
    change = other.transaction(2)
    silent = repeating([*told.snapshot()], lambda: b'{"type":"something-new"}\n')
    first = upstream(snapshot=silent, after=silent)
    second = upstream(snapshot=unavailable(), after=_fresh(other, change))
    with _followed(authorizer, tmp_path, first, second) as host:
        host.becomes(_FIRST, "ALLOWED")
        host.becomes(_SECOND, "ALLOWED")


def test_a_stale_upstream_is_left_for_a_fresher_one(authorizer: Authorizer, tmp_path: Path) -> None:
    told, other = Told(), Told()
    change = other.transaction(2)

    def old() -> bytes:
        return told.bookmark(age_ms=60_000)

    stale = repeating([*told.snapshot(), old()], old)
    first = upstream(snapshot=stale, after=unavailable())
    second = upstream(snapshot=unavailable(), after=_fresh(other, change))
    with _followed(authorizer, tmp_path, first, second) as host:
        host.becomes(_SECOND, "ALLOWED")
        assert host.metric("snapshots-total") == 1


def test_an_older_state_never_replaces_a_newer_one(authorizer: Authorizer, tmp_path: Path) -> None:
    old, new = Told(), Told(LATER_EPOCH)
    new.transaction(2)
    left_behind = upstream(snapshot=_fresh(old, *old.snapshot()), after=_LOST)
    first = upstream(snapshot=stream(new.snapshot()), after=unavailable())
    with _followed(authorizer, tmp_path, first, left_behind) as host:
        host.becomes(_SECOND, "ALLOWED")
        wait_until(lambda: len(_snapshots(left_behind)) > 1, "its snapshot was asked for twice")
        assert host.reads(_SECOND) == "ALLOWED"
        assert host.do("token") == new.token


def _snapshots(server: ScriptedServer) -> list[str]:
    return [seen.path for seen in server.seen if "snapshot=true" in seen.path]


def test_a_position_that_is_lost_leads_to_a_snapshot_of_a_later_epoch(authorizer: Authorizer, tmp_path: Path) -> None:
    forged = Told()
    huge = f"{forged.epoch}:{1 << 62}"
    real = Told(LATER_EPOCH)
    real.transaction(2)
    whole = [changed(line, token=huge) if b'"token"' in line else line for line in forged.snapshot()]
    liar = upstream(snapshot=stream(whole), after=unavailable())
    service = upstream(snapshot=_fresh(real, *real.snapshot()), after=_LOST)
    with _followed(authorizer, tmp_path, liar, service) as host:
        host.becomes(_SECOND, "ALLOWED")
        assert host.do("token") == real.token


def test_an_epoch_that_begins_costs_no_snapshot(authorizer: Authorizer, tmp_path: Path) -> None:
    told = Told()
    whole = [*told.snapshot(), told.bookmark()]
    begun = json.dumps({"type": "epoch", "epoch": str(LATER_EPOCH), "first_offset": 1}).encode()
    told.epoch = LATER_EPOCH
    change = told.transaction(2)
    step = repeating([*whole, begun, change, told.bookmark()], told.bookmark)
    server = upstream(snapshot=step, after=unavailable())
    with _followed(authorizer, tmp_path, server) as host:
        host.becomes(_SECOND, "ALLOWED")
        assert host.do("token") == told.token
        assert len(_snapshots(server)) == 1
        assert server.seen[0].headers["klamm-epochs"] == "1"


def _unknown_kind(line: bytes) -> bytes:
    return changed_record(line, kind="DelegationRecord")


def _later_version(line: bytes) -> bytes:
    return changed_record(line, hash_version=3)


def _unknown_field_in_the_hash(line: bytes) -> bytes:
    return changed(changed_record(line, condition="only on Mondays"), hash="0" * 64)


def _unknown_operation(line: bytes) -> bytes:
    return line.replace(b'"READ"', b'"PONDER"')


@pytest.mark.parametrize("change", [_unknown_kind, _later_version, _unknown_field_in_the_hash, _unknown_operation])
def test_a_record_of_a_later_version_leads_to_a_snapshot_and_is_counted(
    authorizer: Authorizer, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    told = Told()
    before = [*told.snapshot(), told.bookmark()]
    unreadable = change(told.transaction(2))
    first, then = repeating([*before, unreadable], told.bookmark), _fresh(told, *told.snapshot())
    server = upstream(snapshot=one_after_the_other(first, then), after=unavailable())
    with _followed(authorizer, tmp_path, server) as host:
        host.becomes(_SECOND, "ALLOWED")
        assert host.metric("feed-events-unknown-total") == 1
        assert host.metric("snapshots-total") == 2


def test_a_field_that_no_hash_covers_changes_nothing(authorizer: Authorizer, tmp_path: Path) -> None:
    told = Told()
    before = [*told.snapshot(), told.bookmark()]
    change = changed_record(told.transaction(2), request_id="4711")
    server = upstream(snapshot=repeating([*before, change, told.bookmark()], told.bookmark), after=unavailable())
    with _followed(authorizer, tmp_path, server) as host:
        host.becomes(_SECOND, "ALLOWED")
        assert host.metric("snapshots-total") == 1


@pytest.mark.parametrize(
    ("old", "new"), [('"User:alice"', '"alice"'), ('"orders"', '""'), ('"*"', '""'), ('"*"', '"10.0.0.0/99"')]
)
def test_what_no_acl_can_be_is_refused_also_without_a_digest(
    authorizer: Authorizer, tmp_path: Path, old: str, new: str
) -> None:
    told = Told()
    lines = [re.sub(rb'"digest":"[0-9a-f]+"', b'"digest":null', line) for line in told.snapshot()]
    odd = [line.replace(old.encode(), new.encode()) for line in lines]
    assert odd != lines
    with _followed(authorizer, tmp_path, upstream(snapshot=stream(odd), after=unavailable())) as host:
        wait_until(lambda: host.metric("feed-events-refused-total") > 0, "it is refused")
        assert host.metric("acls-total-count") == -1
    with _followed(authorizer, tmp_path, upstream(snapshot=stream(lines), after=unavailable())) as host:
        wait_until(lambda: host.metric("acls-total-count") == 1, "without a digest it is taken")


def test_a_property_that_it_does_not_know_has_no_effect_and_is_shown(authorizer: Authorizer, tmp_path: Path) -> None:
    told = Told()
    before = [*told.snapshot(), told.bookmark()]
    record = ConfigRecord(2, 2, "max.dreams", "7", NOW, "User:admin", b"")
    record = ConfigRecord(2, 2, "max.dreams", "7", NOW, "User:admin", record_hash(told.hash, record))
    change = transaction_json(told.epoch, [record], [encode(record_fields(record))])
    told.records.append(record)
    digest = digest_of(digest_over(told.acls, {"max.dreams": "7"}))
    bookmark = changed(told.bookmark(), digest=digest)
    server = upstream(snapshot=repeating([*before, change, bookmark], lambda: bookmark), after=unavailable())
    with _followed(authorizer, tmp_path, server) as host:
        wait_until(lambda: host.metric("unknown-properties-count") == 1, "the property is counted")
        assert host.reads(_FIRST) == "ALLOWED"
        assert host.metric("feed-events-refused-total") == 0


def test_a_line_without_room_in_memory_is_passed_by_a_snapshot(authorizer: Authorizer, tmp_path: Path) -> None:
    told = Told()
    before = [*told.snapshot(), told.bookmark()]
    long = changed_record(told.transaction(2), comment="x" * _LINE_BYTES)
    first, then = repeating([*before, long], told.bookmark), _fresh(told, *told.snapshot())
    server = upstream(snapshot=one_after_the_other(first, then), after=unavailable())
    with _followed(authorizer, tmp_path, server) as host:
        host.becomes(_FIRST, "ALLOWED")
        host.becomes(_SECOND, "ALLOWED")
        assert host.metric("feed-events-refused-total") == 1


def test_a_line_of_small_values_without_room_in_memory_ends_nothing(authorizer: Authorizer, tmp_path: Path) -> None:
    told = Told()
    before = [*told.snapshot(), told.bookmark()]
    told.transaction(2)
    huge = b'{"type":"transaction","records":[' + b"{}," * _SMALL_VALUES + b"{}]}"
    first, then = repeating([*before, huge], told.bookmark), _fresh(told, *told.snapshot())
    server = upstream(snapshot=one_after_the_other(first, then), after=unavailable())
    with _followed(authorizer, tmp_path, server) as host:
        host.becomes(_SECOND, "ALLOWED")


def test_a_snapshot_with_more_than_its_header_says_is_left(authorizer: Authorizer, tmp_path: Path) -> None:
    told, good = Told(), Told()
    good.transaction(2)
    header, acls, *_ = told.snapshot()
    fields = json.loads(acls)["acls"][0]
    firsts = itertools.count(step=_MANY)

    def more() -> bytes:
        first = next(firsts)
        some = [
            {**fields, "id": str(UUID(int=number)), "resource_name": f"topic-{number:0200}"}
            for number in range(first, first + _MANY)
        ]
        return json.dumps({"type": "acls", "acls": some}).encode()

    endless = repeating([changed(header, acl_count=5)], more, every_s=0)
    first = upstream(snapshot=endless, after=endless)
    second = upstream(snapshot=_fresh(good, *good.snapshot()), after=unavailable())
    with _followed(authorizer, tmp_path, first, second) as host:
        host.becomes(_SECOND, "ALLOWED")
        assert host.metric("feed-events-refused-total") == 1
