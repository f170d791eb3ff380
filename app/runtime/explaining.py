"""explain: near misses looked for in short steps, and then every answer of the batch at one offset."""

from collections.abc import Callable, Sequence
from itertools import chain, islice

from app.core.authorize import Authorization
from app.core.explain.misses import Question
from app.core.explain.near_misses import NearMiss
from app.core.explain.why import Explaining, Explanation, near_misses_of
from app.core.image import AuthorizerImage
from app.core.kafka.codes import WILDCARD_PRINCIPAL
from app.core.kafka.errors import OffsetNotAvailableException
from app.core.token import Token
from app.runtime.loader import Loader
from app.runtime.pace import Pace

_PACED_ATTEMPTS = 3
_MOST_STEPS_AT_ONCE = 25
"""So many steps, each of some hundred ACLs, are taken in one go where the store changes all the time: milliseconds."""

Permission = Callable[[], tuple[Authorization, bool]]
"""Checks the asker's rights against the image in use, and gives whom is asked about against the same image, and
whether the asker may see ACLs of other principals. Raises ApiException."""


async def explain_all(
    loader: Loader, questions: Sequence[Question], permission: Permission
) -> tuple[list[Explanation], Token | None]:
    """One explanation a question, in order, all at the offset of the token; the questions are all of one caller.

    Raises what `permission` raises, before any look-up and at the offset of the answer; OffsetNotAvailableException if
    the store changes all the time and it takes too long to look at one state of it.
    """
    pace = Pace()
    permission()
    near = []
    for question in questions:
        near.append(await _near_misses(loader, question, permission, pace))
        await pace.breathe()
    for _ in range(_PACED_ATTEMPTS):
        found = await _paced(loader, questions, near, permission)
        if found is not None:
            break
    else:
        found = _at_once(loader.image, questions, near, permission)
    explaining, token = found
    told = []
    for each in explaining:
        told.append(each.found())
        await pace.breathe()
    return told, token


async def _near_misses(loader: Loader, question: Question, permission: Permission, pace: Pace) -> list[NearMiss]:
    while True:
        found = await _near_misses_in(loader.image, loader, question, permission, pace)
        if found is not None:
            return found


async def _near_misses_in(
    image: AuthorizerImage, loader: Loader, question: Question, permission: Permission, pace: Pace
) -> list[NearMiss] | None:
    """None if a fresh image took the place of the one that was searched."""
    authorization, of_others = permission()
    search = near_misses_of(image, authorization, question, of_others=of_others)
    if search is None:
        return []
    for _ in search.steps():
        await pace.breathe()
        # INVARIANT: an index that is not in use any more is never looked at, it may be half dismantled.
        if loader.image.index is not image.index:
            return None
    return search.found()


async def _paced(
    loader: Loader, questions: Sequence[Question], near: Sequence[list[NearMiss]], permission: Permission
) -> tuple[list[Explaining], Token | None] | None:
    """None if the image has changed between the first answer and the last."""
    pace = Pace()
    image = loader.image
    found: list[Explaining] = []
    for question, each in zip(questions, near, strict=True):
        await pace.breathe()
        if loader.image is not image:
            return None
        found.append(_explaining(image, permission(), question, each))
        for _ in found[-1].steps():
            await pace.breathe()
            if loader.image is not image:
                return None
    return found, image.token


def _at_once(
    image: AuthorizerImage, questions: Sequence[Question], near: Sequence[list[NearMiss]], permission: Permission
) -> tuple[list[Explaining], Token | None]:
    """All answers in one step of the event loop, which is bounded: raises OffsetNotAvailableException beyond that."""
    rights = permission()
    found = [_explaining(image, rights, question, each) for question, each in zip(questions, near, strict=True)]
    steps = chain.from_iterable(each.steps() for each in found)
    if any(True for _ in islice(steps, _MOST_STEPS_AT_ONCE, None)):
        raise OffsetNotAvailableException(
            "so many ACLs match, and they change so often, that no one state of them could be looked at; "
            "ask about fewer actions at once, or try again"
        )
    return found, image.token


def _explaining(
    image: AuthorizerImage, rights: tuple[Authorization, bool], question: Question, near: Sequence[NearMiss]
) -> Explaining:
    """The explanation to be made, by what `permission` has just given against this image."""
    authorization, of_others = rights
    # INVARIANT: the asker sees what it may see at the offset of the answer, whatever it might when it was searched.
    if not of_others:
        seen = (question.principal, WILDCARD_PRINCIPAL)
        near = [each for each in near if each.acl.binding.principal in seen]
    return Explaining(image, authorization, question, near, of_others=of_others)
