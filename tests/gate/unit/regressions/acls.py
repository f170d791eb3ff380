"""ACLs in few words, and whether one of them allows."""

from app.core.authorize import Authorization
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.hosts import parse_address
from tests.updates import topic

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
ADDRESS = parse_address("10.0.0.1")


def allow(name: str, principal: str = "User:alice", operation: AclOperation = READ) -> AclBinding:
    return topic(name, principal)._replace(operation=operation)


def deny(name: str, principal: str = "User:alice", operation: AclOperation = READ) -> AclBinding:
    return allow(name, principal, operation)._replace(permission_type=AclPermissionType.DENY)


def prefix(name: str, operation: AclOperation = READ) -> AclBinding:
    return allow(name, operation=operation)._replace(pattern_type=PatternType.PREFIXED)


def allowed(image: AuthorizerImage, principal: str, operation: AclOperation, name: str) -> bool:
    return Authorization(image, principal, ADDRESS).decide(operation, TOPIC, name).allowed
