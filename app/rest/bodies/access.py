"""Bodies of whoCan and whatCan."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from app.core.access.holdings import MAX_LISTED
from app.core.kafka.codes import AclOperation
from app.rest.bodies.acls import Acl, AclPrincipal, Cursor, PatternName, UtcTime
from app.rest.bodies.decisions import ResourceReference
from app.rest.bodies.examples import ADMIN, TOKEN, Example, acl_example
from app.rest.bodies.fields import (
    AclOperationWord,
    AskedGroups,
    AskedPrincipal,
    At,
    AtLeast,
    AuthorizableRequestContext,
    Reply,
    Request,
    Text,
    Token,
    check_lengths,
    doc,
)
from app.runtime.listing import DEFAULT_LIMIT, MAX_LIMIT

Host = Annotated[Text, doc("A client's IP address, to ask about that client only; null asks about all hosts.")]
Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Maximum number of rows per page.")]
NextCursor = Annotated[
    str | None,
    doc("Null on the last page. A page with fewer rows than `limit`, even with none, need not be the last."),
]
Ends = Annotated[
    UtcTime | None, doc("When the first of the `operations` is lost because its last ALLOW expires; null means never.")
]
Count = Annotated[int, doc("Total number, including those that are not listed.")]


class WhoCanRequest(Request):
    """The resource to ask about, and the page to return."""

    context: AuthorizableRequestContext
    resource: ResourceReference
    operations: Annotated[
        Annotated[list[AclOperationWord], Meta(max_length=len(AclOperation))] | UnsetType | None,
        doc("The operations to ask about; null or an empty list means all operations of the resource type."),
    ] = UNSET
    host: Host = UNSET
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = UNSET
    at_least: AtLeast = UNSET
    at: At = UNSET


class WhoCanRow(Reply):
    """What one principal can do on the resource from one host, including what `User:*` can do."""

    principal: AclPrincipal
    host: Annotated[
        str,
        doc(
            "A host as in ACLs. The row is about the clients that it covers, except those that a narrower host of the "
            "same principal covers, which has its own row."
        ),
    ]
    operations: Annotated[list[str], doc("The operations that it can do from this host.")]
    denied: Annotated[list[str], doc("The operations that a DENY forbids from this host, whatever the ALLOWs.")]
    expires_at: Ends
    acls: Annotated[
        list[Acl],
        doc(
            "The ACLs of the principal and of `User:*` that decide on the operations from this host: DENYs first, then "
            f"by most specific pattern; at most {MAX_LISTED}."
        ),
    ]
    acl_count: Count


class WhoCanResponse(Reply):
    """One page, sorted by principal, with `User:*` first.

    A principal has its own rows if it has ACLs for the operations. The rows of `User:*` apply to principals without
    rows, and to clients that none of a principal's rows covers. The rows of a group, `Group:<name>`, apply to its
    members as well: a DENY in any of them forbids.
    """

    rows: list[WhoCanRow]
    super_users: Annotated[
        list[str],
        doc("Super users can do everything from every host, and have no rows. Empty if they are not shown."),
    ]
    super_users_shown: Annotated[
        bool, doc("False if super users are left out because the principal lacks DESCRIBE_CONFIGS on the cluster.")
    ]
    allowed_by_default: Annotated[
        bool, doc("True if everybody can do everything because no ACL covers it (`allow.everyone.if.no.acl.found`).")
    ]
    next_cursor: NextCursor
    token: Token


class WhatCanRequest(Request):
    """The principal to ask about, and the page to return."""

    context: AuthorizableRequestContext
    principal: AskedPrincipal
    host: Host = UNSET
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = UNSET
    at_least: AtLeast = UNSET
    groups: AskedGroups = UNSET
    at: At = UNSET

    def __post_init__(self) -> None:
        check_lengths((("/principal", self.principal),))


class WhatCanRow(Reply):
    """What the ALLOWs of the principal, its groups and `User:*` permit on one pattern, less what DENYs forbid."""

    resource_type: str
    resource_name: PatternName
    pattern_type: str
    host: Annotated[str, doc("The host of the ACLs, or the host that the request names.")]
    operations: Annotated[list[str], doc("The operations that it can do, except where `cut_out` forbids them.")]
    denied: Annotated[list[str], doc("Operations that these ALLOWs permit, but that DENYs forbid for the whole row.")]
    expires_at: Ends
    acls: Annotated[list[Acl], doc(f"The DENYs behind `denied`, followed by the ALLOWs; at most {MAX_LISTED}.")]
    acl_count: Count
    cut_out: Annotated[
        list[Acl],
        doc(
            f"The DENYs that forbid some of the `operations` for some names or hosts; at most {MAX_LISTED}: the rest "
            "are in the rows that follow, with the same pattern and host."
        ),
    ]
    cut_out_count: Count


class WhatCanResponse(Reply):
    """One page, sorted by resource type, name, pattern type and host.

    A request is allowed if some row covers it and that row's `cut_out` does not. Rows may overlap. Rows that follow
    each other with the same pattern and host are one row, with the `cut_out` of all of them.
    """

    rows: list[WhatCanRow]
    super_user: Annotated[bool, doc("True if it can do everything whatever the ACLs say; there are no rows.")]
    allowed_by_default: Annotated[
        bool, doc("True if it can do everything on resources that no ACL covers (`allow.everyone.if.no.acl.found`).")
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
        "super_users_shown": True,
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
