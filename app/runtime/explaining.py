"""explain: near misses looked for in short steps, and then every answer of the batch at one offset."""

from collections.abc import Callable, Generator, Sequence

from app.core.authorize import Authorization
from app.core.explain.misses import Question
from app.core.explain.near_misses import NearMiss
from app.core.explain.why import Explaining, Explanation, near_misses_of
from app.core.kafka.errors import OffsetNotAvailableException
from app.core.token import Token
from app.runtime.deciding import at_once, at_one_offset
from app.runtime.pace import Pace
from app.runtime.ports import Images

_MOST_STEPS_AT_ONCE = 26
"""This many steps of some hundred ACLs each, plus one for each question, take milliseconds together."""

Permission = Callable[[], tuple[Authorization, bool]]
"""Checks the asker's rights against the image in use. Returns the caller asked about, against the same image, and
whether the asker may see ACLs of other principals. Raises ApiException."""


async def explain_all(
    images: Images, questions: Sequence[Question], permission: Permission
) -> tuple[list[Explanation], Token | None]:
    """One explanation a question, in order, all at the offset of the token; the questions are all about one caller.

    Raises what `permission` raises, before any look-up and at the offset of the answer; OffsetNotAvailableException if
    the store keeps changing and one state of it can't be searched fast enough.
    """
    pace = Pace()
    permission()
    near = []
    for question in questions:
        near.append(await _near_misses(images, question, permission, pace))
        await pace.breathe()

    def steps() -> Generator[None, None, list[Explaining]]:
        found = list[Explaining]()
        for question, each in zip(questions, near, strict=True):
            yield
            found.append(_explaining(permission(), question, each))
            yield from found[-1].steps()
        return found

    explaining = await at_one_offset(lambda: images.image, steps)
    if explaining is None:
        explaining = at_once(steps(), most_steps=len(questions) + _MOST_STEPS_AT_ONCE)
    if explaining is None:
        raise OffsetNotAvailableException(
            "too many ACLs match, and they change too often, to search one state of them; ask about fewer actions at "
            "once, or try again"
        )
    token = images.image.token
    explanations = []
    for each in explaining:
        explanations.append(each.found())
        await pace.breathe()
    return explanations, token


async def _near_misses(images: Images, question: Question, permission: Permission, pace: Pace) -> list[NearMiss]:
    while True:
        image, (authorization, of_others) = images.image, permission()
        search = near_misses_of(image, authorization, question, of_others=of_others)
        if search is None:
            return []
        for _ in search.steps():
            await pace.breathe()
            # INVARIANT: an index that is no longer in use is never read: it may be half dismantled.
            if images.image.index is not image.index:
                break
        else:
            return search.found()


def _explaining(rights: tuple[Authorization, bool], question: Question, near: Sequence[NearMiss]) -> Explaining:
    authorization, of_others = rights
    # INVARIANT: the asker sees what it may see at the offset of the answer, whatever it might see during the search.
    if not of_others:
        near = [each for each in near if each.acl.binding.principal in question.speaking]
    return Explaining(authorization.image, authorization, question, near, of_others=of_others)
