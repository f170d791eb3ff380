"""One line of the decision log: its decisions, or which column is wrong and why.

Lines are checked only here. Words are Kafka's, hosts are addresses as Java prints them, a rule fits its result.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import parse_address
from app.core.verdicts import Rule, Verdict
from app.pipeline.history.schemas import INT_MAX, LONG_MAX

# No line that the service writes is longer: a resource name and a principal of 32,767 bytes each, escaped.
MAX_LINE_BYTES = 1024 * 1024
_MAX_SHOWN = 100

Value = datetime | str | int | float | list[str] | None
DecisionRow = tuple[Value, ...]
"""The values of a line in the order of `schemas.DECISIONS`."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z\Z", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.ASCII)
_GROUPS = "groups"
_MAY_BE_ABSENT = {_GROUPS, "security_protocol", "request_version", "correlation_id"}
"""Columns that a line may lack: groups if the context named none, the others if an earlier version wrote it."""
_RESULT_OF_RULE = {(each.result.value, each.rule_word) for each in Verdict}


@dataclass(frozen=True, slots=True)
class LineFault:
    """Why a line is put aside. `column` is empty if it is not a JSON object at all."""

    column: str
    reason: str


class _WrongLineError(Exception):
    """Its arguments are those of the LineFault."""


def parse_line(raw: bytes, latest: datetime | None = None) -> list[DecisionRow] | LineFault:
    """One decision, or one for each of the line's `actions`, which share the other fields. The line must not be blank.

    A decision later than `latest` is wrong: a clock that is ahead would make all other decisions look old.
    """
    try:
        fields = _fields_of(raw)
        # A line without `actions` has one action, whose fields are among the others.
        actions = fields.get("actions", [{}])
        if not isinstance(actions, list) or not all(isinstance(each, dict) for each in actions):
            return LineFault("actions", "`actions` must be a list of objects")
        return [_decision({**fields, **action}, latest) for action in actions]
    except _WrongLineError as wrong:
        return LineFault(*wrong.args)


def _fields_of(raw: bytes) -> dict[str, object]:
    if len(raw) > MAX_LINE_BYTES:
        raise _WrongLineError("", f"the line is longer than {MAX_LINE_BYTES} bytes")
    try:
        fields = json.loads(raw.decode(), object_pairs_hook=unique_keys, parse_constant=_no_number)
    except UnicodeDecodeError:
        raise _WrongLineError("", "not UTF-8") from None
    except json.JSONDecodeError as fault:
        reason = f"not JSON, or only the beginning of a line: {fault.msg} (column {fault.colno})"
        raise _WrongLineError("", reason) from None
    except (ValueError, RecursionError) as fault:
        raise _WrongLineError("", f"not a line of the decision log: {str(fault)[:_MAX_SHOWN]}") from None
    if not isinstance(fields, dict):
        raise _WrongLineError("", "not a JSON object")
    return fields


def _decision(fields: Mapping[str, object], latest: datetime | None) -> DecisionRow:
    values = {}
    for column, (what, check) in _CHECKS.items():
        if column not in fields and column not in _MAY_BE_ABSENT:
            raise _WrongLineError(column, f"`{column}` is missing")
        try:
            values[column] = check(fields.get(column))
        except (ValueError, InvalidRequestException) as wrong:
            of_what = " without unpaired surrogates" if isinstance(wrong, UnicodeEncodeError) else ""
            shown = json.dumps(fields[column])
            shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}..."
            raise _WrongLineError(column, f"`{column}` must be {what}{of_what}, not {shown}") from None
    result, rule, time = fields["result"], fields["rule"], values["time"]
    if (result, rule) not in _RESULT_OF_RULE:
        raise _WrongLineError("rule", f"`rule` {rule} never leads to `result` {result}")
    if (fields["acl_id"] is not None) != (rule == Rule.MATCHING_ACL.value):
        reason = f"`acl_id` must be set if `rule` is {Rule.MATCHING_ACL.value}, and only then"
        raise _WrongLineError("acl_id", reason)
    if latest is not None and isinstance(time, datetime) and time > latest:
        reason = f"`time` is in the future ({time:%Y-%m-%d %H:%M}); set the clock of that service"
        raise _WrongLineError("time", reason)
    return tuple(values.values())


def unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The object_pairs_hook of JSON in which no key may come twice."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key comes more than once")
    return fields


def _no_number(word: str) -> object:
    raise ValueError(f"{word} is not a JSON number")


def _time(value: object) -> datetime:
    if isinstance(value, str) and _TIME.match(value) is not None:
        return datetime.fromisoformat(value).astimezone(UTC)
    raise ValueError


def _text(value: object) -> str:
    if isinstance(value, str):
        value.encode()
        return value
    raise ValueError


def _uuid(value: object) -> str:
    if isinstance(value, str) and _UUID.match(value.lower()) is not None:
        return value.lower()
    raise ValueError


def _host(value: object) -> str:
    if isinstance(value, str):
        return parse_address(value).text
    raise ValueError


def _share(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1:
        return float(value)
    raise ValueError


def _groups(value: object) -> list[str] | None:
    if isinstance(value, list):
        return sorted({_text(each) for each in value}) or None
    raise ValueError


def _whole(least: int, most: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        if type(value) is int and least <= value <= most:
            return value
        raise ValueError

    return check


def _word_of(words: Iterable[str]) -> tuple[str, Callable[[object], str]]:
    known = frozenset(words)

    def check(value: object) -> str:
        if isinstance(value, str) and value in known:
            return value
        raise ValueError

    return f"one of {', '.join(sorted(known))}", check


def _or(nothing: Value, check: Callable[[object], Value]) -> Callable[[object], Value]:
    return lambda value: nothing if value == nothing else check(value)


_INT32 = ("a 32-bit whole number or null", _or(None, _whole(-INT_MAX - 1, INT_MAX)))

# What each column must be, and what makes its value or raises ValueError.
_CHECKS: dict[str, tuple[str, Callable[[object], Value]]] = {
    "time": ("a UTC time such as 2026-11-22T00:14:03.123456Z", _time),
    "epoch": ("a UUID", _or("", _uuid)),
    "offset": ("a whole number of at least -1", _whole(-1, LONG_MAX)),
    "principal": ("a text", _text),
    "host": ("an IP address", _host),
    "listener_name": ("a text", _or(None, _text)),
    "security_protocol": ("a text", _or(None, _text)),
    "request_type": _INT32,
    "request_version": _INT32,
    "client_id": ("a text", _or(None, _text)),
    "correlation_id": _INT32,
    "caller": ("a text", _or(None, _text)),
    "operation": _word_of(AclOperation.__members__),
    "resource_type": _word_of(ResourceType.__members__),
    "resource_name": ("a text", _text),
    "result": _word_of(result for result, _ in _RESULT_OF_RULE),
    "rule": _word_of(rule for _, rule in _RESULT_OF_RULE),
    "acl_id": ("a UUID", _or(None, _uuid)),
    "sampled": ("a number above 0 and up to 1", _share),
    _GROUPS: ("a list of texts", _or(None, _groups)),
}
