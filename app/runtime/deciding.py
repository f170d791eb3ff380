"""Decisions that may have to look at every pattern of the caller's: in short steps, all at one offset."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from app.core.authorize import Authorization, Verdict
from app.core.kafka.errors import OffsetNotAvailableException
from app.core.token import Token
from app.runtime.loader import Loader
from app.runtime.pace import Pace

_PACED_ATTEMPTS = 3
_MOST_STEPS_AT_ONCE = 200
"""So many steps, each of some hundred patterns, are taken in one go: milliseconds."""

_QUESTIONS_BETWEEN = 16

Q = TypeVar("Q")
A = TypeVar("A")

Authorize = Callable[[], Authorization]
"""The caller against the image in use. Raises ApiException."""


async def decide_each(
    loader: Loader, authorize: Authorize, questions: Sequence[Q], answer: Callable[[Authorization, Q], A]
) -> tuple[list[A], Token | None]:
    """An answer a question, all of one state, whose token comes with them; in short steps if it takes long.

    Where the store changes all the time it is done in one step. Raises what `authorize` and `answer` raise.
    """
    for _ in range(_PACED_ATTEMPTS):
        found = await _each_paced(loader, authorize, questions, answer)
        if found is not None:
            return found
    authorization = authorize()
    return [answer(authorization, each) for each in questions], loader.image.token


async def _each_paced(
    loader: Loader, authorize: Authorize, questions: Sequence[Q], answer: Callable[[Authorization, Q], A]
) -> tuple[list[A], Token | None] | None:
    """None if the image has changed meanwhile."""
    pace, image, authorization = Pace(), loader.image, authorize()
    answers: list[A] = []
    for count, question in enumerate(questions):
        if count and not count % _QUESTIONS_BETWEEN:
            await pace.breathe()
            # INVARIANT: an index that has changed, or is not in use any more, is never looked at again.
            if loader.image is not image:
                return None
        answers.append(answer(authorization, question))
    return answers, image.token


async def by_resource_type(
    loader: Loader, authorize: Authorize, operation: int, resource_type: int
) -> tuple[Verdict, Token | None]:
    """Answer authorizeByResourceType (KIP-504), with the token of the state that it was decided on.

    It waits only where the caller has thousands of patterns. Raises what `authorize` and
    `Authorization.by_resource_type` raise, and OffsetNotAvailableException if the store changes all the time and it
    takes too long to look at one state of it.
    """
    for _ in range(_PACED_ATTEMPTS):
        found = await _paced(loader, authorize, operation, resource_type)
        if found is not None:
            return found
    verdict = by_resource_type_at_once(authorize(), operation, resource_type)
    if verdict is None:
        raise OffsetNotAvailableException(
            "the caller has ACLs on so many patterns, and the ACLs change so often, that no one state of them could be "
            "looked at; try again"
        )
    return verdict, loader.image.token


def by_resource_type_at_once(authorization: Authorization, operation: int, resource_type: int) -> Verdict | None:
    """The same in one step of the event loop; None if that would take long."""
    steps = authorization.by_resource_type(operation, resource_type)
    for _ in range(_MOST_STEPS_AT_ONCE):
        try:
            next(steps)
        except StopIteration as end:
            verdict: Verdict = end.value
            return verdict
    return None


async def _paced(
    loader: Loader, authorize: Authorize, operation: int, resource_type: int
) -> tuple[Verdict, Token | None] | None:
    """None if the image has changed meanwhile."""
    pace = Pace()
    image = loader.image
    steps = authorize().by_resource_type(operation, resource_type)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, image.token
        await pace.breathe()
        # INVARIANT: an index that has changed, or is not in use any more, is never looked at again.
        if loader.image is not image:
            return None
