"""Decisions on a caller with groups: ACLs of `Group:<name>` apply to it as its own do.

One rule for all of them: any matching DENY of the caller, of a group or of `User:*` forbids; then any matching ALLOW
permits. The rest is `Authorization`'s. Groups never make a super user.
"""

from collections.abc import Iterable

from app.core.authorize import Authorization
from app.core.groups import Groups
from app.core.image import AuthorizerImage
from app.core.index.masks import Entry
from app.core.index.tree import Pattern, PrincipalNode, TypeNode, mask_at
from app.core.index.unions import Union
from app.core.kafka.codes import WILDCARD_PRINCIPAL
from app.core.kafka.hosts import ClientAddress

_TOGETHER = ""
"""No principal has this name."""


class _Speaking:
    """The caller's own and its groups' ACLs on one resource type, decided on like those of one principal."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: tuple[TypeNode, ...]) -> None:
        self.nodes = nodes

    def grants(self, bit: int, name: str, address: ClientAddress) -> int:
        mask = 0
        for node in self.nodes:
            # INVARIANT: everything that may deny is searched to its end before anything is allowed.
            if node.may_deny or not mask & bit:
                mask |= node.grants(bit, name, address)
        return mask


class _SpeakingTypes(dict[int, TypeNode | _Speaking]):
    """By resource type, made when first asked for."""

    __slots__ = ("_own", "_union")

    def __init__(self, own: PrincipalNode | None, union: Union) -> None:
        self._own = own
        self._union = union

    @property
    def types(self) -> "_SpeakingTypes":
        return self

    def __missing__(self, resource_type: int) -> TypeNode | _Speaking:
        own = None if self._own is None else self._own.types[resource_type]
        nodes = self._union.parts(resource_type)
        if own is not None:
            nodes = (own, *nodes)
        found = self[resource_type] = nodes[0] if len(nodes) == 1 else _Speaking(nodes)
        return found


class GroupedAuthorization(Authorization):
    __slots__ = ("_own_alone", "_union")

    def __init__(
        self,
        image: AuthorizerImage,
        principal: str,
        address: ClientAddress,
        groups: Groups,
        *,
        unrestricted: bool = False,
    ) -> None:
        """Raises what Authorization does."""
        super().__init__(image, principal, address, unrestricted=unrestricted)
        self._union = union = image.union(groups)
        self._own_alone = own = super()._own_node()
        self._own = _SpeakingTypes(own, union)

    def _own_node(self) -> PrincipalNode | None:
        return self._own_alone

    def _speaking(self, resource_type: int) -> list[tuple[str, TypeNode]]:
        """The caller's own before its groups' before `User:*`."""
        return self._with_groups(resource_type, self._union.nodes_of(resource_type))

    def _together(self, resource_type: int) -> list[tuple[str, TypeNode]]:
        parts = self._union.parts(resource_type)
        return self._with_groups(resource_type, ((_TOGETHER, node) for node in parts))

    def _with_groups(self, resource_type: int, groups: Iterable[tuple[str, TypeNode]]) -> list[tuple[str, TypeNode]]:
        alone = super()._speaking(resource_type)
        own = [each for each in alone if each[0] != WILDCARD_PRINCIPAL]
        # A caller may be the principal of one of its groups.
        return [*own, *(each for each in groups if each not in own), *alone[len(own) :]]

    def _deciding_pattern(self, bit: int, resource_type: int, resource_name: str) -> tuple[str, Pattern, Entry]:
        principal, pattern, entry = super()._deciding_pattern(bit, resource_type, resource_name)
        if principal != _TOGETHER:
            return principal, pattern, entry
        _, pattern_type, name = pattern
        return next(
            (each, pattern, its)
            for each, node in self._union.nodes_of(resource_type)
            if (its := node.entries(pattern_type).get(name)) is not None and mask_at(its, self._address) & bit
        )

    def _nodes(self, resource_type: int) -> Iterable[TypeNode]:
        alone = super()._speaking(resource_type)
        return (*(node for _, node in alone), *self._union.settled_parts(resource_type))


def authorization_of(
    image: AuthorizerImage,
    principal: str,
    address: ClientAddress,
    groups: Groups | None,
) -> Authorization:
    """Raises what Authorization does."""
    if groups is None:
        return Authorization(image, principal, address)
    return GroupedAuthorization(image, principal, address, groups)
