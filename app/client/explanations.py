"""A question of explain and the service's answer, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.client.groups import groups_body
from app.client.http.replies import (
    count_of,
    parse_acl,
    parse_acls,
    parse_binding,
    parse_list,
    parse_object,
    parse_text,
    text_or_none,
)
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, ResourceType


@dataclass(frozen=True, slots=True)
class Asked:
    principal: str
    operation: AclOperation
    resource_type: ResourceType
    resource_name: str
    host: str
    groups: tuple[str, ...] = ()

    @property
    def fields(self) -> dict[str, object]:
        return {
            "principal": self.principal,
            **groups_body(self.groups),
            "client_address": self.host,
            "operation": self.operation.name,
            "resource_type": self.resource_type.name,
            "resource_name": self.resource_name,
        }


@dataclass(frozen=True, slots=True)
class Explained:
    is_allowed: bool
    rule: str
    acl: StandardAcl | None
    matching: Sequence[StandardAcl]
    matching_count: int
    near_misses: Sequence[tuple[StandardAcl, str]]
    """With what they lack."""
    smallest: AclBinding | None
    denying: Sequence[AclBinding]
    denying_count: int
    needed_besides: AclBinding | None
    note: str | None
    token: str | None


def explained(body: object, token: object) -> Explained:
    """One entry of explain's results. Raises ServiceError."""
    fields = parse_object(body)
    matching, denying = parse_acls(fields, "matching_acls"), parse_acls(fields, "denying_acls")
    near = [parse_object(each) for each in parse_list(fields, "near_misses")]
    return Explained(
        is_allowed=parse_text(fields, "result") == "ALLOWED",
        rule=parse_text(fields, "rule"),
        acl=None if fields.get("acl") is None else parse_acl(fields["acl"]),
        matching=matching,
        matching_count=count_of(fields, "matching_acl_count", matching),
        near_misses=[(parse_acl(each.get("acl")), parse_text(each, "detail")) for each in near],
        smallest=_binding(fields, "smallest_acl"),
        denying=[each.binding for each in denying],
        denying_count=count_of(fields, "denying_acl_count", denying),
        needed_besides=_binding(fields, "acl_needed_besides"),
        note=text_or_none(fields, "note"),
        token=token if isinstance(token, str) else None,
    )


def _binding(fields: Mapping[str, object], name: str) -> AclBinding | None:
    return None if fields.get(name) is None else parse_binding(fields[name])
