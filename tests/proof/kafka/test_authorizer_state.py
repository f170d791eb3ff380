"""The state file of the broker's own authorizer: how old it is, whose it is, and that no orderly end damages it."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fake_upstream import Told, open_stream
from tests.klamm import wait_until
from tests.proof.kafka.authorizer import Authorizer, Host
from tests.proof.kafka.upstream import repeating, unavailable, upstream
from tests.scripted_server import ScriptedServer

_NOBODY = "http://127.0.0.1:9"
_NOT_READY = "org.apache.kafka.common.errors.AuthorizerNotReadyException"
_NAME = "orders"
_ROUNDS = 8
_STALENESS = {"klamm_max_staleness_ms": "60000"}
_OLD_MS = 3_600_000
_KNOWN_AGE = re.compile(r'"age_ms":\d')


def _host(authorizer: Authorizer, folder: Path, url: str, **more: str) -> Host:
    return Host(authorizer, folder, klamm_urls=url, klamm_state_dir=str(folder / "state"), **more)


def _file(folder: Path) -> Path:
    return folder / "state" / "state-1.jsonl"


@contextmanager
def _current(told: Told, age_ms: int = 0) -> Iterator[ScriptedServer]:
    def bookmark() -> bytes:
        return told.bookmark(age_ms=age_ms)

    with upstream(snapshot=repeating([*told.snapshot(), bookmark()], bookmark), after=unavailable()) as server:
        yield server


def _keep(authorizer: Authorizer, folder: Path) -> None:
    """Leave a state file that was written by an upstream's word just now."""
    with _current(Told()) as server, _host(authorizer, folder, server.url) as host:
        host.becomes(_NAME, "ALLOWED")
        wait_until(lambda: _KNOWN_AGE.search(_first_line(folder)) is not None, "its age is known")
        assert host.ended() == "[]"


def _first_line(folder: Path) -> str:
    """Nothing before there is one."""
    return _file(folder).read_text().partition("\n")[0] if _file(folder).exists() else ""


def _is_used(authorizer: Authorizer, folder: Path, **settings: str) -> bool:
    """Whether a start without Klamm stands on the state file."""
    with _host(authorizer, folder, _NOBODY, **settings) as host:
        assert host.began == "started", host.began
        wait_until(lambda: host.do("figures").split()[2] != "0", "it has tried to follow")
        return host.reads(_NAME) == "ALLOWED"


def test_a_restart_does_not_make_the_state_of_a_stale_upstream_fresh(authorizer: Authorizer, tmp_path: Path) -> None:
    with _current(Told(), _OLD_MS) as server, _host(authorizer, tmp_path, server.url, **_STALENESS) as host:
        wait_until(lambda: host.metric("replica-age-ms") >= _OLD_MS, "its age is known")
        assert host.reads(_NAME) == _NOT_READY
        assert host.ended() == "[]"
    assert not _is_used(authorizer, tmp_path, **_STALENESS)
    assert _is_used(authorizer, tmp_path)


def test_a_fresh_state_decides_after_a_restart(authorizer: Authorizer, tmp_path: Path) -> None:
    _keep(authorizer, tmp_path)
    assert _is_used(authorizer, tmp_path, **_STALENESS)


def test_a_snapshot_is_no_proof_of_its_age(authorizer: Authorizer, tmp_path: Path) -> None:
    told = Told()
    server = upstream(snapshot=unavailable(), after=unavailable())
    server.script = [open_stream(server, told.snapshot())]
    with server, _host(authorizer, tmp_path, server.url, **_STALENESS) as host:
        wait_until(lambda: host.metric("acls-total-count") == 1, "the snapshot is taken")
        assert host.metric("replica-age-ms") == -1
        assert host.reads(_NAME) == _NOT_READY


def test_a_file_of_the_version_before_is_used_and_becomes_one_of_this(authorizer: Authorizer, tmp_path: Path) -> None:
    _keep(authorizer, tmp_path)
    first, _, events = _file(tmp_path).read_text().partition("\n")
    assert json.loads(first)["type"] == "state"
    _file(tmp_path).write_text(events)
    assert _is_used(authorizer, tmp_path)
    assert not _is_used(authorizer, tmp_path, **_STALENESS), "nobody knows how old it is"
    told = Told()
    after = repeating([told.bookmark()], told.bookmark)
    with (
        upstream(snapshot=unavailable(), after=after) as server,
        _host(authorizer, tmp_path, server.url, **_STALENESS) as host,
    ):
        host.becomes(_NAME, "ALLOWED")
        wait_until(lambda: _KNOWN_AGE.search(_first_line(tmp_path)) is not None, "it is written anew")
    assert _is_used(authorizer, tmp_path, **_STALENESS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"kafka_cluster_id":"cluster"', '"kafka_cluster_id":"another"'),
        ('"version":2', '"version":3'),
        ('"at":"2', '"at":"soon 2'),
    ],
)
def test_a_file_that_is_not_this_nodes_is_not_used(authorizer: Authorizer, tmp_path: Path, old: str, new: str) -> None:
    _keep(authorizer, tmp_path)
    text = _file(tmp_path).read_text()
    assert old in text
    _file(tmp_path).write_text(text.replace(old, new, 1))
    assert not _is_used(authorizer, tmp_path)
    assert _file(tmp_path).with_name("state-1.jsonl.refused").exists()


def test_a_file_that_others_may_have_written_is_not_used(authorizer: Authorizer, tmp_path: Path) -> None:
    _keep(authorizer, tmp_path)
    text, trusted = _file(tmp_path).read_text(), {"klamm_state_group_writable": "true"}
    _file(tmp_path).chmod(0o660)
    assert _is_used(authorizer, tmp_path, **trusted), "as in a volume of Kubernetes' fsGroup"
    assert not _is_used(authorizer, tmp_path)
    _file(tmp_path).write_text(text)
    _file(tmp_path).chmod(0o606)
    assert not _is_used(authorizer, tmp_path, **trusted)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(text)
    _file(tmp_path).symlink_to(elsewhere)
    assert not _is_used(authorizer, tmp_path)
    assert elsewhere.read_text() == text


def test_a_folder_that_others_can_write_to_stops_the_start(authorizer: Authorizer, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o707)
    with _host(authorizer, tmp_path, _NOBODY) as host:
        assert host.began.startswith("refused: `klamm.state.dir` can't be used: ")
    state.rmdir()
    (tmp_path / "other").mkdir()
    state.symlink_to(tmp_path / "other")
    with _host(authorizer, tmp_path, _NOBODY) as host:
        assert "is a link, or no folder" in host.began


def test_the_group_of_a_folder_loses_its_right_to_write(authorizer: Authorizer, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o770)
    assert not _is_used(authorizer, tmp_path, klamm_state_group_writable="true")
    assert state.stat().st_mode & 0o777 == 0o770
    assert not _is_used(authorizer, tmp_path)
    assert state.stat().st_mode & 0o777 == 0o750


def test_an_orderly_end_keeps_the_file_whatever_is_being_written(authorizer: Authorizer, tmp_path: Path) -> None:
    for number in range(_ROUNDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        told = Told()

        def change(told: Told = told) -> bytes:
            return told.transaction(len(told.records) + 1) + b"\n" + told.bookmark()

        busy = repeating([*told.snapshot(), told.bookmark()], change, every_s=0)
        with upstream(snapshot=busy, after=busy) as server, _host(authorizer, folder, server.url) as host:
            host.becomes("orders-50", "ALLOWED")
            assert host.ended() == "[]"
        assert _is_used(authorizer, folder)


def test_an_end_waits_for_no_upstream(authorizer: Authorizer, tmp_path: Path) -> None:
    told = Told()
    server = upstream(snapshot=unavailable(), after=unavailable())
    server.script = [open_stream(server, [*told.snapshot(), told.bookmark()])]
    with server, _host(authorizer, tmp_path, server.url) as host:
        host.becomes(_NAME, "ALLOWED")
        assert host.ended() == "[]", "a thread that outlives the authorizer holds the file's lock"


def test_futures_are_done_by_a_thread_of_their_own(authorizer: Authorizer, tmp_path: Path) -> None:
    with _current(Told()) as server, _host(authorizer, tmp_path, server.url) as host:
        wait_until(lambda: host.do("callback") != "", "it may start")
        assert host.do("callback") == "klamm-callbacks"
