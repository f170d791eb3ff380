import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.decision_lines import decision_line

ACL_ID = "0192f3a4-0000-7000-8000-00000000abcd"
LINE = decision_line(
    time="2026-11-22T00:14:03.123456Z",
    security_protocol="SASL_SSL",
    request_version=17,
    client_id="c",
    correlation_id=-(2**31),
    resource_name="orders é😀",
    result="ALLOWED",
    rule="MatchingAcl",
    acl_id=ACL_ID,
)
_ADDED = ("security_protocol", "request_version", "correlation_id")


def _parsed(**changes: object) -> Any:  # noqa: ANN401 - a row's values
    from app.pipeline.history.decision_lines import LineFault, parse_line

    read = parse_line(json.dumps({**LINE, **changes}).encode())
    if isinstance(read, LineFault):
        return read
    [row] = read
    return row


def test_a_line_becomes_a_row_in_the_order_of_the_schema() -> None:
    from app.pipeline.history.decision_lines import parse_line
    from app.pipeline.history.schemas import DECISIONS

    row = _parsed()
    assert dict(zip(DECISIONS.fieldNames(), row, strict=True)) == {
        **LINE,
        "time": datetime(2026, 11, 22, 0, 14, 3, 123456, tzinfo=UTC),
        "groups": None,
    }
    assert [row] == parse_line(json.dumps(LINE, ensure_ascii=False).encode() + b"\r")


@pytest.mark.parametrize(
    ("groups", "expected"), [(["b", "a", "b"], ["a", "b"]), ([], None), (None, None), (['é"\n'], ['é"\n'])]
)
def test_groups_are_in_order_and_each_once(groups: list[str] | None, expected: list[str] | None) -> None:
    from app.pipeline.history.schemas import DECISIONS

    assert dict(zip(DECISIONS.fieldNames(), _parsed(groups=groups), strict=True))["groups"] == expected


def test_a_wrong_value_names_its_column(subtests: pytest.Subtests) -> None:
    from app.pipeline.history.decision_lines import LineFault

    cases: Iterable[tuple[dict[str, object], str]] = [
        ({"time": "2026-11-22 00:14:03Z"}, "time"),
        ({"time": "2026-13-22T00:14:03.1Z"}, "time"),
        ({"time": "2026-11-22T00:14:03.1+01:00"}, "time"),
        ({"time": 5}, "time"),
        ({"epoch": "x"}, "epoch"),
        ({"epoch": None}, "epoch"),
        ({"offset": "1"}, "offset"),
        ({"offset": True}, "offset"),
        ({"offset": 1.0}, "offset"),
        ({"offset": -2}, "offset"),
        ({"offset": 1 << 63}, "offset"),
        ({"principal": None}, "principal"),
        ({"principal": {"a": 1}}, "principal"),
        ({"principal": "\ud800"}, "principal"),
        ({"host": "010.1.2.3"}, "host"),
        ({"host": "example.org"}, "host"),
        ({"listener_name": 1}, "listener_name"),
        ({"request_type": "1"}, "request_type"),
        ({"request_type": 1 << 40}, "request_type"),
        ({"client_id": []}, "client_id"),
        ({"security_protocol": 1}, "security_protocol"),
        ({"request_version": "1"}, "request_version"),
        ({"correlation_id": True}, "correlation_id"),
        ({"correlation_id": 1 << 31}, "correlation_id"),
        ({"caller": False}, "caller"),
        ({"operation": "EAT"}, "operation"),
        ({"operation": "read"}, "operation"),
        ({"resource_type": "Topic"}, "resource_type"),
        ({"resource_name": None}, "resource_name"),
        ({"result": "MAYBE"}, "result"),
        ({"rule": "Luck"}, "rule"),
        ({"rule": "DefaultDeny", "acl_id": None}, "rule"),
        ({"rule": "SuperUser"}, "acl_id"),
        ({"acl_id": None}, "acl_id"),
        ({"acl_id": "1234"}, "acl_id"),
        ({"sampled": 0}, "sampled"),
        ({"groups": "a"}, "groups"),
        ({"groups": ["a", 7]}, "groups"),
        ({"groups": {"a": 1}}, "groups"),
        ({"sampled": "1"}, "sampled"),
        ({"sampled": True}, "sampled"),
        ({"sampled": 1.5}, "sampled"),
    ]
    for changes, column in cases:
        with subtests.test(changes=changes, column=column):
            fault = _parsed(**changes)
            assert isinstance(fault, LineFault)
            assert fault.column == column
            assert f"`{column}`" in fault.reason


def test_a_line_of_an_earlier_version_lacks_what_that_did_not_log() -> None:
    from app.pipeline.history.decision_lines import parse_line

    line = {name: value for name, value in LINE.items() if name not in _ADDED}
    assert parse_line(json.dumps(line).encode()) == [_parsed(**dict.fromkeys(_ADDED))]


def test_a_missing_field_names_its_column(subtests: pytest.Subtests) -> None:
    from app.pipeline.history.decision_lines import LineFault, parse_line

    for column in [name for name in LINE if name not in _ADDED]:
        with subtests.test(column=column):
            fault = parse_line(json.dumps({name: value for name, value in LINE.items() if name != column}).encode())
            assert fault == LineFault(column, f"`{column}` is missing")


def test_what_is_no_line_at_all_says_so(subtests: pytest.Subtests) -> None:
    from app.pipeline.history.decision_lines import MAX_LINE_BYTES, LineFault, parse_line

    for raw, reason in [
        (json.dumps(LINE).encode()[:-20], "not JSON, or only the beginning"),
        (b"\xff{}", "not UTF-8"),
        (b"[]", "not a JSON object"),
        (b"7", "not a JSON object"),
        (b'{"offset": NaN}', "NaN is not a JSON number"),
        (b'{"offset": 1, "offset": 2}', "more than once"),
        (b"9" * 5000, "not a line of the decision log"),
        (b"[" * 100_000, "not a line of the decision log"),
        (b'"' + b"a" * MAX_LINE_BYTES + b'"', "longer than"),
    ]:
        with subtests.test(raw=raw, reason=reason):
            fault = parse_line(raw)
            assert isinstance(fault, LineFault)
            assert fault.column == ""
            assert reason in fault.reason


def test_what_a_later_version_adds_is_passed_over_and_hosts_and_ids_get_one_form() -> None:
    from app.pipeline.history.schemas import DECISIONS

    row = _parsed(host="::1", acl_id=ACL_ID.upper(), weather="fine", sampled=1, epoch="", offset=-1)
    fields = dict(zip(DECISIONS.fieldNames(), row, strict=True))
    assert (fields["host"], fields["acl_id"], fields["sampled"]) == ("0:0:0:0:0:0:0:1", ACL_ID, 1.0)
    assert (fields["epoch"], fields["offset"]) == ("", -1)


OF_AN_ACTION = ("operation", "resource_type", "resource_name", "result", "rule", "acl_id")
SHARED = {name: value for name, value in LINE.items() if name not in OF_AN_ACTION}
ACTION = {name: LINE[name] for name in OF_AN_ACTION}
DENIED = {**ACTION, "resource_name": "b", "result": "DENIED", "rule": "DefaultDeny", "acl_id": None}


def test_a_list_of_actions_is_a_row_for_each_with_all_that_they_share() -> None:
    from app.pipeline.history.decision_lines import parse_line

    read = parse_line(json.dumps({**SHARED, "actions": [ACTION, DENIED]}).encode())
    assert read == [_parsed(), _parsed(**DENIED)]


def test_one_wrong_action_makes_the_line_wrong(subtests: pytest.Subtests) -> None:
    from app.pipeline.history.decision_lines import LineFault, parse_line

    cases: Iterable[tuple[object, str]] = [
        ({}, "actions"),
        (None, "actions"),
        ([1], "actions"),
        ([ACTION, {**DENIED, "operation": "x"}], "operation"),
        ([ACTION, {**DENIED, "result": "ALLOWED"}], "rule"),
        ([{"operation": "READ"}], "resource_type"),
    ]
    for actions, column in cases:
        with subtests.test(actions=actions, column=column):
            fault = parse_line(json.dumps({**SHARED, "actions": actions}).encode())
            assert isinstance(fault, LineFault)
            assert fault.column == column


def test_a_list_without_an_action_tells_of_no_decision() -> None:
    from app.pipeline.history.decision_lines import parse_line

    assert parse_line(json.dumps({**SHARED, "actions": []}).encode()) == []
