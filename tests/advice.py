"""explain's advice, followed: what it says of an image is tried out on that image."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from app.core.authorize import Authorization
from app.core.explain.misses import Question
from app.core.explain.near_misses import NearMiss
from app.core.explain.why import Explaining, Explanation, near_misses_of
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType
from app.core.kafka.validation import validate_new_acl
from app.core.verdicts import Verdict
from tests.images import EPOCH


def explain(
    image: AuthorizerImage, authorization: Authorization, question: Question, near: Iterable[NearMiss] = ()
) -> Explanation:
    explaining = Explaining(image, authorization, question, near)
    for _ in explaining.steps():
        pass
    return explaining.found()


def explained(image: AuthorizerImage, asked: Question, *, unrestricted: bool = False) -> Explanation:
    """All that there is to say, the near misses of others too."""
    authorization = Authorization(image, asked.principal, asked.address, unrestricted=unrestricted)
    search = near_misses_of(image, authorization, asked, of_others=True)
    if search is None:
        return explain(image, authorization, asked)
    for _ in search.steps():
        pass
    return explain(image, authorization, asked, search.found())


def verdict_on(image: AuthorizerImage, asked: Question) -> Verdict:
    authorization = Authorization(image, asked.principal, asked.address)
    return authorization.decide(asked.operation, asked.resource_type, asked.resource_name)


@contextmanager
def altered(image: AuthorizerImage, gone: tuple[StandardAcl, ...], new: AclBinding | None) -> Iterator[None]:
    """With these ACLs gone and the new one there; afterwards the image is as before."""
    for acl in gone:
        image.index.remove(acl.binding)
    if new is not None:
        image.index.add(StandardAcl(EPOCH, new).row)
    try:
        yield
    finally:
        if new is not None:
            image.index.remove(new)
        for acl in gone:
            image.index.add(acl.row)


def broken_promises(image: AuthorizerImage, asked: Question, found: Explanation) -> Iterator[str]:
    """What explain says and does not hold."""
    if found.verdict is not verdict_on(image, asked):
        yield "another verdict than authorize's"
    if found.verdict.allowed:
        if (found.smallest_acl, found.denying_acls, found.acl_needed_besides) != (None, (), None):
            yield "advice on what is allowed"
    elif found.denying_acls:
        yield from broken_promises_on_denials(image, asked, found)
    else:
        yield from broken_promises_on_lack(image, asked, found)
    wanted = AclPermissionType.DENY if found.verdict.allowed else AclPermissionType.ALLOW
    for miss in found.near_misses:
        if miss.acl.binding.permission_type is not wanted or miss.acl in found.matching_acls:
            yield f"no near miss: {miss}"


def broken_promises_on_lack(image: AuthorizerImage, asked: Question, found: Explanation) -> Iterator[str]:
    """Where no ACL allows it."""
    if found.smallest_acl is None:
        if allowed_by_anything(image, asked):
            yield "some ACL would allow it, and none is named"
        if not found.note:
            yield "it is not said why nothing can allow it"
        return
    if validate_new_acl(found.smallest_acl) is not None:
        yield "createAcls refuses the smallest ACL"
    with altered(image, (), found.smallest_acl):
        if not verdict_on(image, asked).allowed:
            yield "the smallest ACL does not allow it"


def broken_promises_on_denials(image: AuthorizerImage, asked: Question, found: Explanation) -> Iterator[str]:
    """Where DENYs forbid it: all that are named have to go, and nothing more is needed than what is named besides."""
    denying, besides = found.denying_acls, found.acl_needed_besides
    assert found.denying_acl_count == len(denying)
    if found.smallest_acl is not None:
        yield "an ACL alone is to allow what a DENY forbids"
    for acl in denying:
        rest = tuple(each for each in denying if each is not acl)
        with altered(image, rest, besides):
            if verdict_on(image, asked).allowed:
                yield f"allowed although {acl} is still there"
    with altered(image, denying, None):
        if besides is None and not verdict_on(image, asked).allowed:
            if allowed_by_anything(image, asked):
                yield "an ALLOW is needed and not named"
            if "no ACL can allow this" not in (found.note or ""):
                yield "it is not said that nothing can allow it"
            return
        if besides is not None and verdict_on(image, asked).allowed:
            yield "an ALLOW is named and not needed"
    with altered(image, denying, besides):
        if not verdict_on(image, asked).allowed:
            yield "what is named does not allow it"


def allowed_by_anything(image: AuthorizerImage, asked: Question) -> bool:
    """Whether the widest ACLs that createAcls takes would allow it."""
    for pattern_type, name in (
        (PatternType.LITERAL, "*"),
        (PatternType.LITERAL, asked.resource_name),
        (PatternType.PREFIXED, asked.resource_name[:1]),
        (PatternType.PREFIXED, "kafka-cluster"),
    ):
        widest = AclBinding(
            asked.resource_type, name, pattern_type, "User:*", "*", AclOperation.ALL, AclPermissionType.ALLOW
        )
        if validate_new_acl(widest) is None:
            with altered(image, (), widest):
                if verdict_on(image, asked).allowed:
                    return True
    return False
