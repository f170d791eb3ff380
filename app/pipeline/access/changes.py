"""A change of ACLs that is tried before it is made, and what core says it does to each ACL.

The files of a change take effect in order. A binding that exists already is not created again. Spark's workers load
this module, so it imports nothing that Spark does not bring.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import CODED_FIELDS, WILDCARD, PatternType
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import MAX_RECORDS_PER_USER_OP
from app.pipeline.history.schemas import BINDING_FIELDS
from app.pipeline.spark.errors import PipelineError


class FilterSet:
    """Many filters at once: one look-up for each combination of fields that they name, however many filters."""

    def __init__(self, filters: Sequence[AclBindingFilter]) -> None:
        # Fields -> their values -> the sorted names of MATCH filters; other filters only need their values.
        self._exact: dict[tuple[str, ...], set[tuple[object, ...]]] = defaultdict(set)
        self._match: dict[tuple[str, ...], dict[tuple[object, ...], list[str]]] = defaultdict(dict)
        for each in filters:
            named = {name: value for name in BINDING_FIELDS if (value := _exact_value(each, name)) is not None}
            key, values = tuple(named), tuple(named.values())
            if each.pattern_type is PatternType.MATCH and each.resource_name is not None:
                self._match[key].setdefault(values, []).append(each.resource_name)
            else:
                self._exact[key].add(values)
        for cells in self._match.values():
            for names in cells.values():
                names.sort()

    def matches(self, binding: AclBinding) -> bool:
        def values(key: tuple[str, ...]) -> tuple[object, ...]:
            return tuple(getattr(binding, name) for name in key)

        return any(values(key) in cells for key, cells in self._exact.items()) or any(
            _any_covered(named.get(values(key), ()), binding) for key, named in self._match.items()
        )


@dataclass(frozen=True)
class Step:
    """A file, or half of a saved plan: `bindings` (and where they are in it) to create, or `filters` of ACLs to delete.

    `is_one_call`: the service would get the file as it is, in one call.
    """

    path: str
    bindings: Mapping[AclBinding, str] = field(default_factory=dict)
    filters: FilterSet | None = None
    is_one_call: bool = True


@dataclass(frozen=True)
class Fate:
    """What becomes of a binding: whether it exists at the end, whether it was deleted on the way, by which steps."""

    there: bool
    gone: bool
    deleted_by: int | None = None
    created_by: int | None = None


class Candidate:
    def __init__(self, steps: Sequence[Step], notes: Sequence[str] = ()) -> None:
        self.steps = steps
        self.notes = notes
        """What nobody may miss of the files, a line each: what of them was passed over."""

    @property
    def bindings(self) -> list[AclBinding]:
        return list(dict.fromkeys(binding for step in self.steps for binding in step.bindings))

    def fate(self, binding: AclBinding, *, there: bool) -> Fate:
        gone, deleted_by, created_by = False, None, None
        for number, step in enumerate(self.steps):
            if step.filters is None:
                if not there and binding in step.bindings:
                    there, created_by = True, number
            elif there and step.filters.matches(binding):
                there, gone, deleted_by = False, True, number
        return Fate(there, gone, deleted_by, created_by)


def new_id(binding: AclBinding) -> UUID:
    """The id of an ACL that does not exist yet: always the same for the same binding."""
    return UUID(bytes=binding.natural_key[:16])


def refuse_excessive(step: Step, created: int, deleted: int) -> None:
    for number, what in ((created, "creates"), (deleted, "deletes")):
        if step.is_one_call and number > MAX_RECORDS_PER_USER_OP:
            raise PipelineError(
                f"{step.path}: {what} {number:,} ACLs, and the service refuses more than "
                f"{MAX_RECORDS_PER_USER_OP:,} in one call; split the file"
            )


def _exact_value(acl_filter: AclBindingFilter, name: str) -> object | None:
    """What a binding's field must be equal to; None if any value will do, or if equality does not decide."""
    value = getattr(acl_filter, name)
    if name == "pattern_type":
        return None if value in (PatternType.ANY, PatternType.MATCH) else value
    if name == "resource_name" and acl_filter.pattern_type is PatternType.MATCH:
        return None
    return None if value is None or (name in CODED_FIELDS and value.name == "ANY") else value


def _any_covered(names: Sequence[str], binding: AclBinding) -> bool:
    if binding.pattern_type is PatternType.LITERAL and binding.resource_name == WILDCARD:
        return bool(names)
    at = bisect_left(names, binding.resource_name)
    if at == len(names):
        return False
    if binding.pattern_type is PatternType.PREFIXED:
        return names[at].startswith(binding.resource_name)
    return names[at] == binding.resource_name
