"""One line of the decision log: the decisions that it tells, or which column of it is wrong and why.

Every line is judged here and nowhere else, so that what was ingested can be relied on: words are Kafka's, hosts are
addresses as Java prints them, and a rule goes with its result.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from app.core.authorize import Rule, Verdict
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import parse_address

MAX_LINE_BYTES = 1024 * 1024
"""No line that the service writes is longer: a resource name and a principal of 32,767 bytes each, escaped."""

MAX_SHOWN = 100
"""Characters of a value that a reason quotes."""

DecisionRow = tuple[datetime | str | int | float | None, ...]
"""The values of a line in the order of `schemas.DECISIONS`."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z\Z", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.ASCII)
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_NO_LIST: list[dict[str, object]] = [{}]
"""A line without `actions` tells of one, whose fields stand with all others."""

_RESULT_OF_RULE = {(each.result.value, each.rule_word) for each in Verdict}


@dataclass(frozen=True, slots=True)
class LineFault:
    """Why a line is put aside; `column` is empty where it is no JSON object at all."""

    column: str
    reason: str


class _WrongValueError(Exception):
    """What a value should be."""


def parse_line(raw: bytes, latest: datetime | None = None) -> list[DecisionRow] | LineFault:
    """The decisions in this line, as long as it is not blank: one, or those of a list of actions that share the rest.

    Fields that this version doesn't know are passed over; one wrong action makes the line wrong. A decision later than
    `latest` is wrong: by one clock that goes ahead all others would look old.
    """
    fields = _fields_of(raw)
    if isinstance(fields, LineFault):
        return fields
    actions = fields.get("actions", _NO_LIST)
    if not isinstance(actions, list) or not all(isinstance(each, dict) for each in actions):
        return LineFault("actions", "`actions` must be a list of objects")
    rows = []
    for action in actions:
        row = _by_then(_decision({**fields, **action}), latest)
        if isinstance(row, LineFault):
            return row
        rows.append(row)
    return rows


def _fields_of(raw: bytes) -> dict[str, object] | LineFault:
    if len(raw) > MAX_LINE_BYTES:
        return LineFault("", f"the line is longer than {MAX_LINE_BYTES} bytes")
    try:
        fields = json.loads(raw.decode(), object_pairs_hook=_object, parse_constant=_no_number)
    except UnicodeDecodeError:
        return LineFault("", "not UTF-8")
    except json.JSONDecodeError as fault:
        return LineFault("", f"not JSON, or only the beginning of a line: {fault.msg} (column {fault.colno})")
    except (ValueError, RecursionError) as fault:
        return LineFault("", f"not a line of the decision log: {str(fault)[:MAX_SHOWN]}")
    return fields if isinstance(fields, dict) else LineFault("", "not a JSON object")


def _by_then(row: DecisionRow | LineFault, latest: datetime | None) -> DecisionRow | LineFault:
    if latest is not None and not isinstance(row, LineFault) and isinstance(row[0], datetime) and row[0] > latest:
        return LineFault("time", f"`time` is in the future ({row[0]:%Y-%m-%d %H:%M}); set the clock of that service")
    return row


def _decision(fields: Mapping[str, object]) -> DecisionRow | LineFault:
    values = []
    for column, check in _CHECKS:
        if column not in fields:
            return LineFault(column, f"`{column}` is missing")
        try:
            values.append(check(fields[column]))
        except _WrongValueError as wrong:
            return LineFault(column, f"`{column}` must be {wrong}, not {_shown(fields[column])}")
    result, rule, acl_id = fields["result"], fields["rule"], fields["acl_id"]
    if (result, rule) not in _RESULT_OF_RULE:
        return LineFault("rule", f"`rule` {rule} never leads to `result` {result}")
    if (acl_id is not None) != (rule == Rule.MATCHING_ACL.value):
        return LineFault("acl_id", f"`acl_id` must be there if `rule` is {Rule.MATCHING_ACL.value}, and only then")
    return tuple(values)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key comes more than once")
    return fields


def _no_number(word: str) -> object:
    raise ValueError(f"{word} is no JSON number")


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _time(value: object) -> datetime:
    if isinstance(value, str) and _TIME.match(value) is not None:
        try:
            return datetime.fromisoformat(value).astimezone(UTC)
        except ValueError:
            pass
    raise _WrongValueError("a UTC time such as 2026-11-22T00:14:03.123456Z")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _WrongValueError("a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _WrongValueError("a text without halves of surrogate pairs") from None
    return value


def _text_or_null(value: object) -> str | None:
    return None if value is None else _text(value)


def _epoch(value: object) -> str:
    return "" if value == "" else _uuid(value)


def _uuid(value: object) -> str:
    if isinstance(value, str):
        found = value.lower()
        if _UUID.match(found) is not None:
            return found
    raise _WrongValueError("a UUID")


def _uuid_or_null(value: object) -> str | None:
    return None if value is None else _uuid(value)


def _offset(value: object) -> int:
    if type(value) is int and -1 <= value <= _LONG_MAX:
        return value
    raise _WrongValueError("a whole number from -1 on")


def _int_or_null(value: object) -> int | None:
    if value is None or (type(value) is int and -_INT_MAX <= value <= _INT_MAX):
        return value
    raise _WrongValueError("a whole number of 32 bits or null")


def _host(value: object) -> str:
    if isinstance(value, str):
        try:
            return parse_address(value).text
        except InvalidRequestException:
            pass
    raise _WrongValueError("an IP address")


def _share(value: object) -> float:
    if type(value) in (int, float) and 0 < value <= 1:  # type: ignore[operator]  # it is a number by now
        return float(value)  # type: ignore[arg-type]  # the same
    raise _WrongValueError("a number above 0 and up to 1")


def _word_of(words: frozenset[str]) -> Callable[[object], str]:
    def check(value: object) -> str:
        if isinstance(value, str) and value in words:
            return value
        raise _WrongValueError(f"one of {', '.join(sorted(words))}")

    return check


def _names(enum: type[Enum]) -> frozenset[str]:
    return frozenset(enum.__members__)


_CHECKS: tuple[tuple[str, Callable[[object], datetime | str | int | float | None]], ...] = (
    ("time", _time),
    ("epoch", _epoch),
    ("offset", _offset),
    ("principal", _text),
    ("host", _host),
    ("listener_name", _text_or_null),
    ("request_type", _int_or_null),
    ("client_id", _text_or_null),
    ("caller", _text_or_null),
    ("operation", _word_of(_names(AclOperation))),
    ("resource_type", _word_of(_names(ResourceType))),
    ("resource_name", _text),
    ("result", _word_of(frozenset(result for result, _ in _RESULT_OF_RULE))),
    ("rule", _word_of(frozenset(rule for _, rule in _RESULT_OF_RULE))),
    ("acl_id", _uuid_or_null),
    ("sampled", _share),
)
