"""What has to follow changes to make everything as it was before them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from app.client.http.replies import parse_acl, parse_object, parse_terms, parse_text, strange_reply, text_or_none
from app.core.kafka.bindings import AclBinding, AclTerms

Json = Mapping[str, object]
Subject = AclBinding | str
"""The subject of a change: an ACL, by its seven fields, or a property, by its name."""


def subject_of(change: Json) -> Subject:
    if change.get("config") is not None:
        return parse_text(parse_object(change["config"]), "name")
    return parse_acl(change.get("acl")).binding


def terms_before(change: Json) -> AclTerms | None:
    """The terms of this change's ACL before it; None: it did not exist. Raises ServiceError."""
    match parse_text(change, "change"):
        case "CREATED":
            return None
        case "CHANGED":
            return parse_terms(change.get("prior"))
        case "DELETED":
            return parse_terms(change.get("acl"))
    raise strange_reply("a change is none of CREATED, CHANGED and DELETED")


def value_before(change: Json) -> str | None:
    """The value of this change's property before it; None: its start-up value."""
    return text_or_none(parse_object(change.get("config")), "prior_value")


@dataclass(slots=True)
class Inverse:
    """What to make of ACLs (None: delete them) and properties (None: the start-up value)."""

    acls: dict[AclBinding, AclTerms | None] = field(default_factory=dict)
    properties: dict[str, str | None] = field(default_factory=dict)
    changed_since: list[Json] = field(default_factory=list)
    """The last change of each subject that is left as it is, because somebody has changed it since."""
    ended: list[AclBinding] = field(default_factory=list)
    """ACLs whose former end has passed, so that they would be gone by now: they are not created again."""

    @property
    def is_empty(self) -> bool:
        return not (self.acls or self.properties)


def inverse_of(
    changes: Iterable[Json],
    since: Mapping[Subject, Json],
    acls: Mapping[AclBinding, AclTerms],
    properties: Mapping[str, str],
    now: datetime,
) -> Inverse:
    """What undoes the changes, which come newest first, in a store that has these ACLs and stored properties now.

    `since` has the last change of whatever was changed after them. INVARIANT: what is in it is not touched.
    """
    inverse = Inverse()
    # INVARIANT: newest first, so that for each subject the oldest change decides.
    oldest = {subject_of(each): each for each in changes}
    for subject, change in oldest.items():
        if isinstance(subject, str):
            value = value_before(change)
            if properties.get(subject) == value:
                continue
            if subject not in since:
                inverse.properties[subject] = value
        else:
            terms = terms_before(change)
            if terms is not None and terms.expires_at is not None and terms.expires_at <= now:
                terms = None
                inverse.ended.append(subject)
            if acls.get(subject) == terms:
                continue
            if subject not in since:
                inverse.acls[subject] = terms
        if subject in since:
            inverse.changed_since.append(since[subject])
    return inverse
