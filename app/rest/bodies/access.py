"""Bodies of whoCan and whatCan."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from app.core.access.holdings import MAX_LISTED
from app.core.kafka.codes import AclOperation
from app.rest.bodies.acls import Acl, AclPrincipal, PatternName, UtcTime
from app.rest.bodies.decisions import ResourceReference
from app.rest.bodies.examples import ADMIN, TOKEN, Example, acl_example
from app.rest.bodies.fields import (
    BYTES,
    AclOperationWord,
    At,
    AtLeast,
    AuthorizableRequestContext,
    GroupNames,
    Reply,
    Request,
    Text,
    Token,
    check_lengths,
    doc,
)
from app.runtime.listing import DEFAULT_LIMIT, MAX_LIMIT

Host = Annotated[Text, doc("A client's IP address, to ask about this client only; null: about all hosts.")]
Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Rows on a page.")]
Cursor = Annotated[Text, doc("`next_cursor` of the page before.")]
NextCursor = Annotated[
    str | None,
    doc("Null on the last page. A page may have fewer rows than `limit`, even none, and yet not be the last."),
]
Ends = Annotated[
    UtcTime | None, doc("When the first of `operations` is lost because the last ALLOW for it ends; null: never.")
]
Count = Annotated[int, doc("How many there are.")]


class WhoCanRequest(Request):
    """A resource, and which page of who can do what on it."""

    context: AuthorizableRequestContext
    resource: ResourceReference
    operations: Annotated[
        Annotated[list[AclOperationWord], Meta(max_length=len(AclOperation))] | UnsetType | None,
        doc("Which operations it is about; null or none: all that the type has."),
    ] = UNSET
    host: Host = UNSET
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = UNSET
    at_least: AtLeast = UNSET
    at: At = UNSET


class WhoCanRow(Reply):
    """What one principal can do on the resource from one host, what `User:*` has included."""

    principal: AclPrincipal
    host: Annotated[
        str,
        doc(
            "The clients that this ACL host covers, except those that a narrower host of the same principal covers, "
            "which has a row of its own."
        ),
    ]
    operations: Annotated[list[str], doc("What it can do from there.")]
    denied: Annotated[list[str], doc("What a DENY forbids there, whatever ALLOWs there are.")]
    expires_at: Ends
    acls: Annotated[
        list[Acl],
        doc(
            "The ACLs of the principal and of `User:*` that speak of the operations there: DENYs first, the most "
            f"specific pattern first; {MAX_LISTED} at most."
        ),
    ]
    acl_count: Count


class WhoCanResponse(Reply):
    """One page: `User:*` first, then by principal.

    A principal has rows if ACLs of its own speak of the operations. For a client that none of its rows covers, and for
    every principal without rows, the rows of `User:*` hold. Members of a group have its rows, `Group:<name>`, besides
    their own: a DENY in any of them forbids.
    """

    rows: list[WhoCanRow]
    super_users: Annotated[list[str], doc("They can do everything from everywhere, and have no rows.")]
    allowed_by_default: Annotated[
        bool, doc("True: everybody can do everything, as no ACL is on it (allow.everyone.if.no.acl.found).")
    ]
    next_cursor: NextCursor
    token: Token


class WhatCanRequest(Request):
    """A principal, and which page of what it can do."""

    context: AuthorizableRequestContext
    principal: Annotated[str, doc(f"`type:name`, for example `User:bob`. {BYTES}", examples=["User:bob"])]
    host: Host = UNSET
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = UNSET
    at_least: AtLeast = UNSET
    groups: Annotated[GroupNames | UnsetType | None, doc("Groups that the principal is in.")] = UNSET
    at: At = UNSET

    def __post_init__(self) -> None:
        check_lengths((("/principal", self.principal),))


class WhatCanRow(Reply):
    """What ALLOWs of the principal, of its groups and of `User:*` give on one pattern, after DENYs."""

    resource_type: str
    resource_name: PatternName
    pattern_type: str
    host: Annotated[str, doc("The ACLs' host; if the request names a host, that one.")]
    operations: Annotated[list[str], doc("What it can do there, but for what `cut_out` forbids.")]
    denied: Annotated[list[str], doc("What these ALLOWs would give if DENYs did not forbid it on all of this.")]
    expires_at: Ends
    acls: Annotated[list[Acl], doc(f"The ALLOWs, and before them the DENYs behind `denied`; {MAX_LISTED} at most.")]
    acl_count: Count
    cut_out: Annotated[
        list[Acl],
        doc(f"The DENYs that forbid some of `operations` for a part of the names or hosts; {MAX_LISTED} at most."),
    ]
    cut_out_count: Count


class WhatCanResponse(Reply):
    """One page, sorted by resource type, name, pattern type and host.

    A request is allowed if a row covers it whose `cut_out` does not. Rows may overlap.
    """

    rows: list[WhatCanRow]
    super_user: Annotated[bool, doc("True: it can do everything, whatever ACLs say; there are no rows.")]
    allowed_by_default: Annotated[
        bool, doc("True: it can do everything on what no ACL of anybody is on (allow.everyone.if.no.acl.found).")
    ]
    next_cursor: NextCursor
    token: Token


WHO_CAN_EXAMPLE = Example(
    request={
        "context": ADMIN,
        "resource": {"resource_type": "TOPIC", "resource_name": "hr.salaries.v1"},
        "operations": ["READ"],
        "host": "10.61.9.3",
        "limit": 2,
    },
    reply={
        "rows": [
            {
                "principal": "User:former-employee",
                "host": "*",
                "operations": [],
                "denied": ["READ"],
                "expires_at": None,
                "acls": [
                    acl_example(
                        "TOPIC * LITERAL User:former-employee * ALL DENY", "0d1e2f3a-4b5c-4d6e-8f70-8192a3b4c588"
                    )
                ],
                "acl_count": 1,
            },
            {
                "principal": "User:svc-hr-sync",
                "host": "10.61.9.0/28",
                "operations": ["READ"],
                "denied": [],
                "expires_at": None,
                "acls": [
                    acl_example(
                        "TOPIC hr. PREFIXED User:svc-hr-sync 10.61.9.0/28 READ ALLOW",
                        "1a2b3c4d-5e6f-4a7b-8c9d-0e1f2a3b4c99",
                    )
                ],
                "acl_count": 1,
            },
        ],
        "super_users": ["User:admin"],
        "allowed_by_default": False,
        "next_cursor": "WyJVc2VyOnN2Yy1oci1zeW5jIiwiNDAwMDAxMDEwMDAxMTExMDEwMDAwMTAwMTAwMDAiXQ",
        "token": TOKEN,
    },
)
WHAT_CAN_EXAMPLE = Example(
    request={"context": ADMIN, "principal": "User:svc-refunds", "limit": 1},
    reply={
        "rows": [
            {
                "resource_type": "TOPIC",
                "resource_name": "company.announcements.v1",
                "pattern_type": "LITERAL",
                "host": "*",
                "operations": ["READ", "DESCRIBE"],
                "denied": [],
                "expires_at": None,
                "acls": [
                    acl_example(
                        "TOPIC company.announcements.v1 LITERAL User:* * READ ALLOW",
                        "2b3c4d5e-6f7a-4b8c-9d0e-1f2a3b4c5daa",
                    ),
                    acl_example(
                        "TOPIC company.announcements.v1 LITERAL User:* * DESCRIBE ALLOW",
                        "3c4d5e6f-7a8b-4c9d-8e1f-2a3b4c5d6ebb",
                    ),
                ],
                "acl_count": 2,
                "cut_out": [
                    acl_example("TOPIC * LITERAL User:* 10.66.0.0/16 ALL DENY", "4d5e6f7a-8b9c-4d0e-9f2a-3b4c5d6e7fcc")
                ],
                "cut_out_count": 1,
            }
        ],
        "super_user": False,
        "allowed_by_default": False,
        "next_cursor": "WzIsImNvbXBhbnkuYW5ub3VuY2VtZW50cy52MSIsMywiKiJd",
        "token": TOKEN,
    },
)
