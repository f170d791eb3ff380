"""Bodies of deleteAcls: the filters whose ACLs go."""

import json
from typing import Any

import msgspec

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import CODED_FIELDS
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.validation import validate_filter
from app.formats.acl_entries import MAX_SHOWN
from app.formats.lines import NOT_UTF_8

_Filter = msgspec.defstruct(
    "_Filter",
    [(name, str | None, None) for name in AclBinding._fields],
    forbid_unknown_fields=True,
)


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    filters: list[_Filter]  # type: ignore[valid-type]  # the fields of a binding stand once
    context: Any = None
    timeout_ms: Any = None


def parse_delete_body(raw: bytes) -> list[AclBindingFilter]:
    """Raises ValueError, with the place, for what the service would refuse."""
    try:
        body = msgspec.convert(json.loads(raw.decode(), object_pairs_hook=unique_keys), _Body)
    except UnicodeDecodeError:
        raise ValueError(NOT_UTF_8) from None
    except json.JSONDecodeError as fault:
        raise ValueError(f"not JSON: {fault.msg} (line {fault.lineno}, column {fault.colno})") from None
    except (msgspec.ValidationError, RecursionError) as fault:
        raise ValueError(str(fault)) from None
    return [_filter(f"$.filters[{number}]", each) for number, each in enumerate(body.filters)]


def unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The object_pairs_hook of JSON in which no key may come twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key comes more than once; send it once")
    return found


def _filter(place: str, given: msgspec.Struct) -> AclBindingFilter:
    fields = {name: value for name, value in msgspec.structs.asdict(given).items() if value is not None}
    for name in fields.keys() & CODED_FIELDS:
        known = CODED_FIELDS[name].__members__
        if fields[name] not in known:
            shown = fields[name][:MAX_SHOWN]
            raise ValueError(
                f"`{shown}` is not a value that Kafka knows; send one of {', '.join(known)} - at `{place}.{name}`"
            )
        fields[name] = known[fields[name]]
    found = AclBindingFilter(**fields)
    refusal = validate_filter(found)
    if refusal is not None:
        raise ValueError(f"{refusal.message} - at `{place}`")
    return found
