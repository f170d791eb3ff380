"""Long work on one image, in short steps: it begins again if the image changes, so that all is at one offset."""

from collections.abc import Callable, Generator, Sequence
from math import inf
from time import perf_counter
from typing import TypeVar

from app.core.authorize import Authorization
from app.core.kafka.errors import OffsetNotAvailableException
from app.core.token import Token
from app.core.verdicts import Verdict
from app.runtime.pace import Pace
from app.runtime.ports import Images

_ATTEMPTS = 3
_MOST_STEPS_AT_ONCE = 200
"""This many steps of authorizeByResourceType, of some hundred patterns each, take milliseconds together."""
_QUESTIONS_IN_A_STEP = 16

Q = TypeVar("Q")
A = TypeVar("A")
T = TypeVar("T")

Authorize = Callable[[], Authorization]
"""The caller against the image in use. Raises ApiException."""


async def at_one_offset(image: Callable[[], object], begin: Callable[[], Generator[None, None, T]]) -> T | None:
    """What the steps return, with turns for others in between; None if the image keeps changing."""
    for _ in range(_ATTEMPTS):
        pace, begun_on, steps = Pace(), image(), begin()
        # INVARIANT: an index that has changed, or is no longer in use, is never read again.
        while image() is begun_on:
            try:
                next(steps)
            except StopIteration as end:
                found: T = end.value
                return found
            await pace.breathe()
    return None


def at_once(steps: Generator[None, None, T], *, most_steps: int = 1_000, most_s: float = inf) -> T | None:
    """None if there are more steps, or they take longer."""
    ends_at = perf_counter() + most_s
    for _ in range(most_steps):
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
        if perf_counter() > ends_at:
            break
    return None


async def decide_each(
    images: Images, authorize: Authorize, questions: Sequence[Q], answer: Callable[[Authorization, Q], A]
) -> tuple[list[A], Token | None]:
    """Answers of one state, and its token; in a single step if the store keeps changing."""

    def steps() -> Generator[None, None, list[A]]:
        authorization, answers = authorize(), list[A]()
        for start in range(0, len(questions), _QUESTIONS_IN_A_STEP):
            if start:
                yield
            answers += [answer(authorization, each) for each in questions[start : start + _QUESTIONS_IN_A_STEP]]
        return answers

    answers = await at_one_offset(lambda: images.image, steps)
    if answers is None:
        authorization = authorize()
        answers = [answer(authorization, each) for each in questions]
    return answers, images.image.token


async def by_resource_type(
    images: Images, authorize: Authorize, operation: int, resource_type: int
) -> tuple[Verdict, Token | None]:
    """Kafka's authorizeByResourceType (KIP-504); it waits only where the caller has thousands of patterns.

    Raises OffsetNotAvailableException if the store keeps changing and one state takes too long to search.
    """
    verdict = await at_one_offset(lambda: images.image, lambda: authorize().by_resource_type(operation, resource_type))
    if verdict is None:
        search = authorize().by_resource_type(operation, resource_type)
        verdict = at_once(search, most_steps=_MOST_STEPS_AT_ONCE)
    if verdict is None:
        raise OffsetNotAvailableException(
            "the caller has ACLs on too many patterns, and the ACLs change too often, to search one state of them; "
            "try again"
        )
    return verdict, images.image.token
