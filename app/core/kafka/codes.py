"""Kafka's wire codes: resource types, pattern types, operations, permission types.

Words and numbers are those of `org.apache.kafka.common.acl` and `.resource` in Kafka 4.4.0.
A word or number from the future maps to UNKNOWN and never raises (KIP-140).
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Self


class KafkaCode(IntEnum):
    @classmethod
    def from_code(cls, code: int) -> Self:
        """The member with this wire code, or UNKNOWN."""
        try:
            return cls(code)
        except ValueError:
            return cls(0)

    @classmethod
    def from_string(cls, word: str) -> Self:
        """The member spelled exactly so (upper case), or UNKNOWN."""
        member = cls.__members__.get(word)
        return cls(0) if member is None else member

    @property
    def camel_case(self) -> str:
        """The name as kafka-acls and most other tools spell it: DESCRIBE_CONFIGS is DescribeConfigs."""
        return "".join(part.capitalize() for part in self.name.split("_"))


class ResourceType(KafkaCode):
    """What an ACL protects (KIP-140, KIP-373 for USER)."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(KafkaCode):
    """How an ACL's resource name is compared (KIP-290)."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(KafkaCode):
    """What a caller wants to do (KIP-140, KIP-373, KIP-939)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(KafkaCode):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


WILDCARD = "*"
"""The resource name, host or principal name that stands for all of its kind."""

CODED_FIELDS: Mapping[str, type[KafkaCode]] = MappingProxyType(
    {
        "resource_type": ResourceType,
        "pattern_type": PatternType,
        "operation": AclOperation,
        "permission_type": AclPermissionType,
    }
)
"""The fields of an ACL that are words for people and codes for core, in the order of AclRow."""

WILDCARD_PRINCIPAL = "User:*"
"""The principal of an ACL that applies to callers of every principal type."""

CLUSTER_NAME = "kafka-cluster"
