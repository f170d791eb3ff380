"""Warnings about many ACLs: each thing once, with the first ACL that it is about, and no more lines than one reads."""

import io

from app.client.console import MAX_WARNINGS, Warnings, warn_of
from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType

GOOD = AclBinding(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW
)


def told(*acls: AclBinding) -> list[str]:
    err = io.StringIO()
    warn_of(map(NewAcl, acls), "klamm plan", err)
    return err.getvalue().splitlines()


def test_nothing_is_said_of_what_can_be_meant() -> None:
    assert told(GOOD, GOOD._replace(host="10.0.0.0/8")) == []


def test_the_same_thing_is_said_once_with_its_first_acl() -> None:
    (line,) = told(GOOD, *(GOOD._replace(principal="user:temp", resource_name=name) for name in ("a", "b", "c")))
    assert line.startswith("klamm plan: warning: `user:temp` is not `User:temp`")
    assert line.endswith("(ALLOW user:temp from * READ on TOPIC LITERAL a and 2 ACLs more)")


def test_many_things_are_cut_with_their_number() -> None:
    lines = told(*(GOOD._replace(host=f"web-{number}\n\x1b") for number in range(2_000)))
    assert len(lines) == MAX_WARNINGS + 1
    assert lines[-1] == f"klamm plan: warning: and {2_000 - MAX_WARNINGS} more of this kind"
    assert all(line.isprintable() for line in lines)


def test_acls_that_are_watched_pass_as_they_are() -> None:
    warnings, err = Warnings(), io.StringIO()
    acls = [NewAcl(GOOD), NewAcl(GOOD._replace(host="web-1"))]
    assert list(warnings.watch(acls)) == acls
    warnings.print("klamm import", err)
    assert err.getvalue().startswith("klamm import: warning: host `web-1` matches no client")
