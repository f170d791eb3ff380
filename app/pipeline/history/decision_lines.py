"""One line of the decision log: its decisions, or which column of it is wrong and why.

Lines are only checked here, so that what was ingested can be relied on: words are Kafka's, hosts are addresses as Java
prints them, and a rule goes with its result.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from app.core.authorize import Rule, Verdict
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import parse_address

MAX_LINE_BYTES = 1024 * 1024
"""No line that the service writes is longer: a resource name and a principal of 32,767 bytes each, escaped."""

MAX_SHOWN = 100
"""Characters of a value that a reason quotes."""

Value = datetime | str | int | float | None
DecisionRow = tuple[Value, ...]
"""The values of a line in the order of `schemas.DECISIONS`."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z\Z", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.ASCII)
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_NO_LIST: list[dict[str, object]] = [{}]
"""A line without `actions` has one, whose fields are among the others."""

_RESULT_OF_RULE = {(each.result.value, each.rule_word) for each in Verdict}


@dataclass(frozen=True, slots=True)
class LineFault:
    """Why a line is put aside. `column` is empty if it is not a JSON object at all."""

    column: str
    reason: str


class _WrongValueError(Exception):
    """The text says what a value should be."""


def parse_line(raw: bytes, latest: datetime | None = None) -> list[DecisionRow] | LineFault:
    """The decisions in a line that is not blank: one, or one for each of its `actions`, which share the other fields.

    Unknown fields are ignored; one wrong action makes the line wrong. A decision later than `latest` is wrong: a clock
    that is ahead would make all other decisions look old.
    """
    fields = _fields_of(raw)
    if isinstance(fields, LineFault):
        return fields
    actions = fields.get("actions", _NO_LIST)
    if not isinstance(actions, list) or not all(isinstance(each, dict) for each in actions):
        return LineFault("actions", "`actions` must be a list of objects")
    rows = []
    for action in actions:
        row = _decision({**fields, **action}, latest)
        if isinstance(row, LineFault):
            return row
        rows.append(row)
    return rows


def _fields_of(raw: bytes) -> dict[str, object] | LineFault:
    if len(raw) > MAX_LINE_BYTES:
        return LineFault("", f"the line is longer than {MAX_LINE_BYTES} bytes")
    try:
        fields = json.loads(raw.decode(), object_pairs_hook=unique_keys, parse_constant=_no_number)
    except UnicodeDecodeError:
        return LineFault("", "not UTF-8")
    except json.JSONDecodeError as fault:
        return LineFault("", f"not JSON, or only the beginning of a line: {fault.msg} (column {fault.colno})")
    except (ValueError, RecursionError) as fault:
        return LineFault("", f"not a line of the decision log: {str(fault)[:MAX_SHOWN]}")
    return fields if isinstance(fields, dict) else LineFault("", "not a JSON object")


def _decision(fields: Mapping[str, object], latest: datetime | None) -> DecisionRow | LineFault:
    values = {}
    for column, check in _CHECKS.items():
        if column not in fields:
            return LineFault(column, f"`{column}` is missing")
        try:
            values[column] = check(fields[column])
        except _WrongValueError as wrong:
            return LineFault(column, f"`{column}` must be {wrong}, not {_shown(fields[column])}")
    result, rule, time = fields["result"], fields["rule"], values["time"]
    if (result, rule) not in _RESULT_OF_RULE:
        return LineFault("rule", f"`rule` {rule} never leads to `result` {result}")
    if (fields["acl_id"] is not None) != (rule == Rule.MATCHING_ACL.value):
        return LineFault("acl_id", f"`acl_id` must be there if `rule` is {Rule.MATCHING_ACL.value}, and only then")
    if latest is not None and isinstance(time, datetime) and time > latest:
        return LineFault("time", f"`time` is in the future ({time:%Y-%m-%d %H:%M}); set the clock of that service")
    return tuple(values.values())


def unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The object_pairs_hook of JSON in which no key may come twice."""
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


def _uuid(value: object) -> str:
    if isinstance(value, str) and _UUID.match(value.lower()) is not None:
        return value.lower()
    raise _WrongValueError("a UUID")


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


def _whole(least: int, most: int, what: str) -> Callable[[object], int]:
    def check(value: object) -> int:
        if type(value) is int and least <= value <= most:
            return value
        raise _WrongValueError(what)

    return check


def _word_of(words: Iterable[str]) -> Callable[[object], str]:
    known = frozenset(words)

    def check(value: object) -> str:
        if isinstance(value, str) and value in known:
            return value
        raise _WrongValueError(f"one of {', '.join(sorted(known))}")

    return check


def _or(nothing: Value, check: Callable[[object], Value]) -> Callable[[object], Value]:
    return lambda value: nothing if value == nothing else check(value)


_CHECKS: dict[str, Callable[[object], Value]] = {
    "time": _time,
    "epoch": _or("", _uuid),
    "offset": _whole(-1, _LONG_MAX, "a whole number from -1 on"),
    "principal": _text,
    "host": _host,
    "listener_name": _or(None, _text),
    "request_type": _or(None, _whole(-_INT_MAX, _INT_MAX, "a whole number of 32 bits or null")),
    "client_id": _or(None, _text),
    "caller": _or(None, _text),
    "operation": _word_of(AclOperation.__members__),
    "resource_type": _word_of(ResourceType.__members__),
    "resource_name": _text,
    "result": _word_of(result for result, _ in _RESULT_OF_RULE),
    "rule": _word_of(rule for _, rule in _RESULT_OF_RULE),
    "acl_id": _or(None, _uuid),
    "sampled": _share,
}
