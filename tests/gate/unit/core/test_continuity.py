"""What a process remembers of a store's history, and epochs that rise."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID, uuid4

import pytest

from app.core.continuity import Continuity, FeedPosition, KnownHistory, continuity
from app.core.epochs import Epochs, is_later, next_epoch

NOW = datetime(2026, 11, 22, 21, 30, 0, 123_456, tzinfo=UTC)
BORN = UUID("0768e2e2-e297-4ba5-a4d9-0eff56e84f3c")
"""As `klamm migrate` makes them."""


def later_than(*known: UUID, at: datetime = NOW) -> UUID:
    return next_epoch(at, known, uuid4())


def at(offset: int, epoch: UUID = BORN, hash_: bytes = b"same") -> FeedPosition:
    return FeedPosition(epoch, offset, hash_)


def test_epochs_rise_whatever_the_clock_says() -> None:
    epochs = [BORN]
    for hours in (0, 0, 1, -1000, 0):
        epochs.append(later_than(*epochs, at=NOW + timedelta(hours=hours)))
    assert all(is_later(after, before) and not is_later(before, after) for before, after in pairwise(epochs))
    assert {each.version for each in epochs[1:]} == {7}
    assert all(UUID(str(each)) == each for each in epochs)


def test_of_two_births_neither_is_later() -> None:
    one, other = uuid4(), uuid4()
    assert not is_later(one, other)
    assert not is_later(other, one)
    assert not is_later(one, one)


def test_two_that_begin_an_epoch_at_once_do_not_begin_the_same() -> None:
    epochs = {later_than(BORN) for _ in range(1_000)}
    assert len(epochs) == 1_000


def test_the_last_millisecond_that_an_epoch_can_tell_is_no_fault() -> None:
    last = UUID(int=((1 << 48) - 1) << 80 | 7 << 76 | 0b10 << 62)
    assert later_than(last).version == 7


def test_continuity(subtests: pytest.Subtests) -> None:
    for head, hash_at, found in [
        (at(5), b"same", Continuity.PROVED),
        (at(9), b"same", Continuity.PROVED),
        (at(9), b"other", Continuity.DIVERGED),
        (at(9), None, Continuity.UNPROVED),
        (at(4), None, Continuity.LOST),
        (at(4), b"same", Continuity.LOST),
        (at(4, later_than(BORN)), None, Continuity.PROVED),
        (at(9, uuid4()), b"same", Continuity.LOST),
    ]:
        with subtests.test(head=head, hash_at=hash_at, found=found):
            assert continuity(at(5), Epochs.only(head.epoch), head.offset, hash_at) is found


def test_an_older_epoch_is_none_to_go_on_in() -> None:
    present = later_than(BORN)
    assert continuity(at(5, present), Epochs.only(BORN), 9, b"same") is Continuity.LOST


def test_hashes_are_compared_across_epochs(subtests: pytest.Subtests) -> None:
    """Beyond where the next epoch began the position is lost, and that epoch has told so already."""
    for first_offset, hash_at, found in [
        (5, b"same", Continuity.PROVED),
        (5, b"other", Continuity.DIVERGED),
        (7, None, Continuity.PROVED),
        (4, b"other", Continuity.PROVED),
    ]:
        with subtests.test(first_offset=first_offset, hash_at=hash_at, found=found):
            epochs = Epochs.only(BORN).begun(later_than(BORN), first_offset)
            assert continuity(at(5), epochs, 9, hash_at) is found


def test_what_is_known_is_given_up_for_what_follows_it_only() -> None:
    known, second, third = KnownHistory(), later_than(BORN), later_than(BORN, at=NOW + timedelta(seconds=1))
    known.saw(at(3))
    known.saw(at(2))
    assert known.position == at(3)
    known.proved(at(2))
    assert known.position == at(3)
    known.saw(at(1, second))
    assert known.position == at(1, second)
    known.saw(at(9))
    known.proved(at(9))
    assert known.position == at(1, second)
    known.lose()
    known.saw(at(7, second))
    assert (known.position, known.is_lost) == (at(1, second), True)
    known.saw(at(0, third))
    assert (known.position, known.is_lost) == (at(0, third), False)
    known.lose()
    known.proved(at(4, third))
    assert (known.position, known.is_lost) == (at(4, third), False)
