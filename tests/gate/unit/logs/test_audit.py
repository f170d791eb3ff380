"""The audit log's lines, levels and what happens when they can't be written."""

import json
import re
from threading import Event
from uuid import UUID

import pytest

from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AUDIT_LEVELS
from app.core.verdicts import Verdict
from app.logs.audit import (
    API_KEY_NAMES,
    DEBUG,
    INFO,
    LEVELS,
    TRACE,
    AuditEntry,
    AuditLog,
    AuditSource,
    _kafka_lines,
    level_of,
    request_name,
)
from app.metrics.declared import Metrics
from tests.klamm import wait_until

SOURCE = AuditSource("User:alice", "10.1.2.3", 1)
ACL = StandardAcl(
    UUID(int=1),
    AclBinding(
        ResourceType.TOPIC,
        "orders",
        PatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.DENY,
    ),
)


def entry(
    name: str = "orders",
    verdict: Verdict = Verdict.DEFAULT_DENY,
    resource_type: ResourceType = ResourceType.TOPIC,
    acl: StandardAcl | None = None,
    level: int = INFO,
) -> AuditEntry:
    return AuditEntry(level, AclOperation.READ, resource_type, name, 1, verdict, acl)


def audit_message(source: AuditSource, entry: AuditEntry) -> str:
    [line] = _kafka_lines(0.0, source, [entry], slice(1))
    return line.split(" ", 3)[3].removesuffix(" (kafka.authorizer.logger)\n")


def closed(log: AuditLog) -> None:
    log.start()
    log.close()


def test_a_denied_action_reads_as_in_kafka() -> None:
    assert audit_message(SOURCE, entry(verdict=Verdict.DENIED_BY_ACL, acl=ACL)) == (
        "Principal = User:alice is Denied operation = READ from host = 10.1.2.3 on resource = Topic:LITERAL:orders "
        "for request = Fetch with resourceRefCount = 1 based on rule MatchingAcl(acl=StandardAcl(resourceType=TOPIC, "
        "resourceName=orders, patternType=LITERAL, principal=User:alice, host=*, operation=READ, permissionType=DENY))"
    )


def test_an_allowed_action_reads_as_in_kafka() -> None:
    source = AuditSource("User:admin", "0:0:0:0:0:0:0:1", None)
    assert audit_message(source, entry(verdict=Verdict.SUPER_USER)) == (
        "Principal = User:admin is Allowed operation = READ from host = 0:0:0:0:0:0:0:1 on resource = "
        "Topic:LITERAL:orders for request = null with resourceRefCount = 1 based on rule SuperUser"
    )


@pytest.mark.parametrize(
    ("verdict", "rule"), [(Verdict.DEFAULT_DENY, "DefaultDeny"), (Verdict.DEFAULT_ALLOW, "DefaultAllow")]
)
def test_a_default_is_named_as_the_rule(verdict: Verdict, rule: str) -> None:
    assert audit_message(SOURCE, entry(verdict=verdict)).endswith(f" based on rule {rule}")


def test_resource_types_are_printed_in_pascal_case(subtests: pytest.Subtests) -> None:
    for resource_type, printed in [
        (ResourceType.UNKNOWN, "Unknown"),
        (ResourceType.ANY, "Any"),
        (ResourceType.TOPIC, "Topic"),
        (ResourceType.GROUP, "Group"),
        (ResourceType.CLUSTER, "Cluster"),
        (ResourceType.TRANSACTIONAL_ID, "TransactionalId"),
        (ResourceType.DELEGATION_TOKEN, "DelegationToken"),
        (ResourceType.USER, "User"),
    ]:
        with subtests.test(resource_type=resource_type, printed=printed):
            assert f"on resource = {printed}:LITERAL:orders " in audit_message(
                SOURCE, entry(resource_type=resource_type)
            )


def test_a_request_is_named_by_its_api_key(subtests: pytest.Subtests) -> None:
    for api_key, name in [
        (0, "Produce"),
        (1, "Fetch"),
        (18, "ApiVersions"),
        (30, "CreateAcls"),
        (94, "UnregisterController"),
        (95, "95"),
        (-1, "-1"),
        (32767, "32767"),
        (None, "null"),
    ]:
        with subtests.test(api_key=api_key, name=name):
            assert request_name(api_key) == name


def test_no_request_name_comes_twice() -> None:
    assert len(set(API_KEY_NAMES)) == len(API_KEY_NAMES) == 95


@pytest.mark.parametrize(
    ("verdict", "log_if_allowed", "log_if_denied", "level"),
    [
        (Verdict.ALLOWED_BY_ACL, True, False, DEBUG),
        (Verdict.ALLOWED_BY_ACL, False, True, TRACE),
        (Verdict.DENIED_BY_ACL, False, True, INFO),
        (Verdict.DEFAULT_DENY, True, False, TRACE),
    ],
)
def test_levels_are_those_of_kafka(verdict: Verdict, log_if_allowed: bool, log_if_denied: bool, level: int) -> None:  # noqa: FBT001 - parameters of a table
    assert level_of(verdict, log_if_allowed, log_if_denied) == level


def test_every_level_that_can_be_configured_is_known() -> None:
    assert set(LEVELS) == set(AUDIT_LEVELS)
    assert list(LEVELS.values()) == sorted(LEVELS.values())


def test_control_characters_are_escaped_wherever_they_come_from(subtests: pytest.Subtests) -> None:
    for unsafe in [
        "\n",
        "\r",
        "\t",
        "\x1b[2J",
        "\x7f",
        "\x85",
        "\x9b",
        "\u2028",
        "\u2029",
        "\u202e",
        "\u2066",
        "\u200f",
        "\u061c",
    ]:
        with subtests.test(unsafe=unsafe):
            source = AuditSource(f"User:{unsafe}", "10.1.2.3", 1)
            message = audit_message(source, entry(f"a{unsafe}b"))
            assert unsafe[0] not in message
            escaped = f"\\u{ord(unsafe[0]):04x}"
            assert f"User:{escaped}" in message
            assert f":a{escaped}" in message


def test_names_that_can_be_printed_stay_as_they_are() -> None:
    name = 'CN="a, b\\c" é 主题 😀 \u00a0'
    assert f"LITERAL:{name} for request" in audit_message(SOURCE, entry(name))


def test_a_line_has_kafkas_layout() -> None:
    written: list[str] = []
    metrics = Metrics()
    log = AuditLog(written.append, metrics)
    log.log(SOURCE, [entry(level=DEBUG)])
    closed(log)
    stamp = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]"
    message = re.escape(audit_message(SOURCE, entry()))
    assert re.fullmatch(rf"{stamp} DEBUG {message} \(kafka\.authorizer\.logger\)\n", "".join(written))
    assert metrics.audit_lines_written == 1


def test_what_waits_at_close_is_written_in_order() -> None:
    written: list[str] = []
    log = AuditLog(written.append, Metrics(), linger_s=60)
    log.start()
    for n in range(50):
        log.log(SOURCE, [entry(f"t{n}"), entry(f"u{n}")])
    log.close()
    names = re.findall(r"LITERAL:(\w+) ", "".join(written))
    assert names == [name for n in range(50) for name in (f"t{n}", f"u{n}")]


def test_lines_are_written_without_a_close() -> None:
    done = Event()
    log = AuditLog(lambda _: done.set(), Metrics(), linger_s=0.001)
    log.start()
    log.log(SOURCE, [entry()])
    assert done.wait(10)
    log.close()


def test_lines_above_the_bound_are_dropped_and_counted() -> None:
    written: list[str] = []
    metrics = Metrics()
    log = AuditLog(written.append, metrics, capacity=1000)
    for _ in range(10):
        log.log(SOURCE, [entry()])
    closed(log)
    assert metrics.audit_lines_written == "".join(written).count("\n") == 3
    assert metrics.audit_lines_dropped == 7


def test_long_names_count_against_the_bound() -> None:
    metrics = Metrics()
    log = AuditLog(lambda _: None, metrics, capacity=1000)
    log.log(SOURCE, [entry("x" * 1000)])
    assert metrics.audit_lines_dropped == 1


def test_room_comes_back_once_lines_are_written() -> None:
    metrics = Metrics()
    done = Event()
    log = AuditLog(lambda _: done.set(), metrics, capacity=400, linger_s=0)
    log.start()
    for _ in range(3):
        while log._size_in != log._size_out:
            done.wait(0.01)
        log.log(SOURCE, [entry()])
    log.close()
    assert (metrics.audit_lines_written, metrics.audit_lines_dropped) == (3, 0)


def test_lines_after_the_close_are_counted_as_dropped() -> None:
    metrics = Metrics()
    log = AuditLog(lambda _: None, metrics)
    closed(log)
    log.log(SOURCE, [entry(), entry()])
    assert metrics.audit_lines_dropped == 2


def test_closing_a_log_that_never_started_returns() -> None:
    AuditLog(lambda _: None, Metrics()).close()


def test_a_sink_that_fails_costs_its_lines_and_no_others(caplog: pytest.LogCaptureFixture) -> None:
    written: list[str] = []
    metrics = Metrics()
    failed = Event()

    def write(text: str) -> None:
        if not failed.is_set():
            failed.set()
            raise OSError(28, "No space left on device")
        written.append(text)

    log = AuditLog(write, metrics, linger_s=0)
    log.start()
    log.log(SOURCE, [entry("lost"), entry("lost too")])
    assert failed.wait(10)
    log.log(SOURCE, [entry("kept")])
    log.close()
    assert "LITERAL:kept " in "".join(written)
    assert (metrics.audit_lines_failed, metrics.audit_lines_written) == (2, 1)
    assert "audit_write_failed" in caplog.text


def test_lines_that_can_not_be_made_cost_what_is_written_with_them_and_no_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    written: list[str] = []
    metrics = Metrics()
    log = AuditLog(written.append, metrics)
    log.log(SOURCE, [entry("lost", resource_type=99)] * 100)  # type: ignore[arg-type]  # there is no such type
    log.log(SOURCE, [entry("kept")])
    closed(log)
    assert (metrics.audit_lines_failed, metrics.audit_lines_written) == (100, 1)
    assert "LITERAL:kept " in "".join(written)
    assert caplog.messages == ["audit_write_failed", "audit_written_again"]


def test_a_sink_that_stays_broken_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    def write(_: str) -> None:
        raise BrokenPipeError

    metrics = Metrics()
    log = AuditLog(write, metrics)
    for _ in range(5):
        log.log(SOURCE, [entry()] * 100)
    log.start()
    wait_until(lambda: metrics.audit_lines_failed >= 500)
    # There is nothing left to write at the end: that is no recovery.
    log.close()
    assert metrics.audit_lines_failed == 500
    assert caplog.messages == ["audit_write_failed"]


MARKED = AuditSource("User:alice", "10.1.2.3", 1, "3f9a-1", "0af7651916cd43dd8448eb211c80319c", "billing")


def json_lines(source: AuditSource, *entries: AuditEntry) -> list[dict[str, object]]:
    """What a log in JSON writes of these."""
    written: list[str] = []
    log = AuditLog(written.append, Metrics(), form="JSON")
    log.log(source, entries)
    closed(log)
    text = "".join(written)
    assert text.endswith("\n")
    assert all(each.isprintable() for each in text.split("\n"))
    return [json.loads(line) for line in text.removesuffix("\n").split("\n")]


def test_in_json_a_line_is_an_object_with_kafkas_sentence() -> None:
    [line] = json_lines(MARKED, entry(verdict=Verdict.DENIED_BY_ACL, acl=ACL))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(line.pop("time")))
    assert line == {
        "level": "INFO",
        "logger": "kafka.authorizer.logger",
        "event": "decision",
        "message": audit_message(SOURCE, entry(verdict=Verdict.DENIED_BY_ACL, acl=ACL)),
        "request_id": "3f9a-1",
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "caller": "billing",
    }


def test_in_json_each_action_of_a_request_has_a_line_with_its_level() -> None:
    lines = json_lines(MARKED, entry("a", level=DEBUG), entry("b"), entry("c", level=TRACE))
    assert [line["level"] for line in lines] == ["DEBUG", "INFO", "TRACE"]
    assert [re.findall(r"LITERAL:(\w+) ", str(line["message"])) for line in lines] == [["a"], ["b"], ["c"]]


def test_in_json_what_is_not_known_is_left_out() -> None:
    [line] = json_lines(SOURCE, entry())
    assert list(line) == ["time", "level", "logger", "event", "message"]


def test_in_json_every_name_comes_back_as_it_was(subtests: pytest.Subtests) -> None:
    for name in [
        "a\nb",
        "\r",
        '"',
        "\\",
        '\\"',
        "\\u000a",
        "\x00",
        "\x1b[2J",
        "\x7f",
        "\x85",
        "\u2028",
        "\u202e",
        "\u200b",
        "\ufeff",
        "e\u0301",
        "\xe9",
        "\u65e5\u672c",
        "\U000e0001",
        '","level":"ERROR',
        "\n" * 32_767,
        '"' * 32_767,
    ]:
        with subtests.test(name=name):
            acl = StandardAcl(ACL.id, ACL.binding._replace(resource_name=name, principal=f"User:{name}"))
            source = AuditSource(f"User:{name}", name, None, name, name, name)
            [line] = json_lines(source, entry(name, Verdict.DENIED_BY_ACL, acl=acl))
            assert line["message"] == (
                f"Principal = User:{name} is Denied operation = READ from host = {name} "
                f"on resource = Topic:LITERAL:{name} for request = null with resourceRefCount = 1 "
                "based on rule MatchingAcl(acl=StandardAcl(resourceType=TOPIC, "
                f"resourceName={name}, patternType=LITERAL, principal=User:{name}, host=*, operation=READ, "
                "permissionType=DENY))"
            )
            assert (line["request_id"], line["trace_id"], line["caller"]) == (name, name, name)


def test_in_kafkas_layout_nobody_looks_for_who_made_the_request() -> None:
    assert audit_message(MARKED, entry()) == audit_message(SOURCE, entry())
