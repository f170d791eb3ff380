"""Random ACLs on few names, so that they nest, repeat and contradict; each resource type is a world of its own."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from random import Random

from pyspark.sql import DataFrame, SparkSession

from app.core.authorize import Authorization
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.hosts import parse_address
from app.pipeline.history.schemas import ACLS, BINDING_FIELDS, RESOURCES
from tests.images import numbered
from tests.strategies import ADDRESSES, ASKED_NAMES, CONCRETE_OPERATIONS, CONCRETE_TYPES, HOSTS, NAMES, PRINCIPALS

MORE_HOSTS = (*HOSTS, "10.0.0.1/32", "10.0.0.4/31", "10.0.0.1/31", "10.0.0.0/08", "fe80::/10", "fe80:0:0:0:0:0:0:1")
MORE_NAMES = (*NAMES, "😀", "😀😀a", "😀é", "\ue000", "a😀")
MORE_ADDRESSES = (*ADDRESSES, "10.0.0.3", "fe80::1", "fe80::1%eth0")
RESOURCE_NAMES = sorted({*ASKED_NAMES, *MORE_NAMES, "😀😀abc", "😁", "\ue000x"} - {""})
CALLERS = (*PRINCIPALS, "Robot:x")
ENDS = tuple(datetime(2100, 1, day, tzinfo=UTC) for day in (1, 2, 3))


def random_acls(seed: int, per_type: int) -> list[StandardAcl]:
    """About so many ACLs on every resource type."""
    draw = Random(seed)
    bindings = [
        AclBinding(
            resource_type,
            draw.choice(("a", "ab", "*", *MORE_NAMES)),
            draw.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            draw.choice(PRINCIPALS),
            draw.choice(("*", "*", "*", *MORE_HOSTS)),
            draw.choice((AclOperation.READ, AclOperation.DESCRIBE, *[AclOperation.ALL] * 3, *CONCRETE_OPERATIONS)),
            draw.choice((*[AclPermissionType.ALLOW] * 3, AclPermissionType.DENY)),
        )
        for resource_type in CONCRETE_TYPES
        for _ in range(per_type)
    ]
    draw.shuffle(bindings)
    return numbered(bindings)


def acl_frame(spark: SparkSession, acls: Iterable[StandardAcl]) -> DataFrame:
    """These ACLs as Spark has them."""
    return spark.createDataFrame([(*fields_of(acl).values(), _ends(acl), acl.owner) for acl in acls], ACLS)


def _ends(acl: StandardAcl) -> int | None:
    return None if acl.expires_at is None else int(acl.expires_at.timestamp())


def with_ends(seed: int, acls: Iterable[StandardAcl]) -> list[StandardAcl]:
    """Half of them end, at one of ENDS."""
    draw = Random(seed)
    return [replace(acl, expires_at=draw.choice((*ENDS, *[None] * len(ENDS)))) for acl in acls]


def alive(acls: Iterable[StandardAcl], at: datetime | None) -> list[StandardAcl]:
    """Those that have not ended by then, as they count then, without an end; None: once all have ended that do.

    An image that isn't asked as of a time takes every ALLOW with an end for ended.
    """
    there = [acl for acl in acls if acl.expires_at is None or (at is not None and acl.expires_at > at)]
    return [replace(acl, expires_at=None) for acl in there]


def fields_of(acl: StandardAcl) -> dict[str, str]:
    """An ACL's id and seven fields in words."""
    fields = {name: getattr(acl.binding, name) for name in BINDING_FIELDS}
    words = {
        name: each if isinstance(each, str) and not hasattr(each, "name") else each.name
        for name, each in fields.items()
    }
    return {"id": str(acl.id), **words}


def resource_frame(spark: SparkSession, names: Iterable[str] = RESOURCE_NAMES) -> DataFrame:
    """These names, on every resource type."""
    return spark.createDataFrame([(each.name, name) for each, name in product(CONCRETE_TYPES, names)], RESOURCES)


def decisions(
    image: AuthorizerImage, callers: Sequence[str] = CALLERS, types: Iterable[ResourceType] = CONCRETE_TYPES
) -> dict[tuple[str, str, str, str, int], bool]:
    """What core says on everything that can be asked about these names."""
    said = {}
    for principal, address in product(callers, MORE_ADDRESSES):
        authorization = Authorization(image, principal, parse_address(address))
        for each, name, operation in product(types, RESOURCE_NAMES, tuple(AclOperation)[2:]):
            question = (principal, address, each.name, name, int(operation))
            said[question] = authorization.decide(operation, each, name).allowed
    return said
