"""What a decision says (KIP-504): allowed or denied, by which of Kafka's rules, by which ACL."""

from dataclasses import dataclass
from enum import Enum

from app.core.kafka.bindings import StandardAcl


class AuthorizationResult(Enum):
    """The answer to the caller (KIP-504)."""

    ALLOWED = "ALLOWED"
    DENIED = "DENIED"


class Rule(Enum):
    """Which of Kafka's rules decided, in the words of its audit log."""

    SUPER_USER = "SuperUser"
    MATCHING_ACL = "MatchingAcl"
    DEFAULT_ALLOW = "DefaultAllow"
    DEFAULT_DENY = "DefaultDeny"


class Verdict(Enum):
    """A result with the rule that gave it. Members are shared: a decision allocates nothing."""

    SUPER_USER = (AuthorizationResult.ALLOWED, Rule.SUPER_USER)
    DENIED_BY_ACL = (AuthorizationResult.DENIED, Rule.MATCHING_ACL)
    ALLOWED_BY_ACL = (AuthorizationResult.ALLOWED, Rule.MATCHING_ACL)
    DEFAULT_ALLOW = (AuthorizationResult.ALLOWED, Rule.DEFAULT_ALLOW)
    DEFAULT_DENY = (AuthorizationResult.DENIED, Rule.DEFAULT_DENY)

    allowed: bool
    result: AuthorizationResult
    rule: Rule
    rule_word: str
    """The rule's audit word, kept here as an enum's `value` costs a call each time."""

    def __init__(self, result: AuthorizationResult, rule: Rule) -> None:
        self.result = result
        self.rule = rule
        self.rule_word = rule.value
        self.allowed = result is AuthorizationResult.ALLOWED


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, the ACL that gave it (None unless the rule is MatchingAcl) and the offset it was made at.

    Of several ACLs that decide alike, the one on the most specific pattern is named (the literal name, then the
    longest prefix, then `*`), of these the caller's own before its groups' before `User:*`'s, of these the first in
    list order.
    """

    verdict: Verdict
    acl: StandardAcl | None
    offset: int

    def __str__(self) -> str:
        rule = self.verdict.rule_word
        return rule if self.acl is None else f"{rule}(acl={self.acl})"
