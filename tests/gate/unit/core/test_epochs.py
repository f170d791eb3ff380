"""The epochs of a history as a store has noted them, and what a token is that somebody asks about the past with."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from app.core.epochs import Epoch, Epochs
from app.core.kafka.errors import (
    ApiException,
    OffsetNotAvailableException,
    TokenEpochInvalidException,
    TokenEpochMismatchException,
)
from app.core.past import StoreHead
from app.core.token import Token

BORN = UUID("5a6f9f10-94c5-4a1c-9a70-0d5b6f3c2e11")
FIRST = UUID("0199f0c2-5d1e-7c3a-9a41-3f6f0b8a2c17")
SECOND = UUID("0199f0c2-5d1f-7c3a-9a41-3f6f0b8a2c17")
THIRD = UUID("0199f0c2-5d20-7c3a-9a41-3f6f0b8a2c17")
FAR = UUID("ffffffff-ffff-7fff-8fff-ffffffffffff")
EPOCHS = Epochs((Epoch(BORN, 0), Epoch(FIRST, 10), Epoch(SECOND, 20)))


def test_what_does_not_fit_is_left_out_with_all_that_is_older(subtests: pytest.Subtests) -> None:
    for last, noted, kept in [
        (SECOND, [(BORN, 0), (FIRST, 10), (SECOND, 20)], [BORN, FIRST, SECOND]),
        (FIRST, [(BORN, 0), (FIRST, 10), (SECOND, 20)], [BORN, FIRST]),
        (THIRD, [(BORN, 0), (FIRST, 10), (SECOND, 20)], [THIRD]),
        (SECOND, [(BORN, 30), (FIRST, 10), (SECOND, 20)], [FIRST, SECOND]),
        (SECOND, [(BORN, 0), (FIRST, 30), (SECOND, 20)], [SECOND]),
        (SECOND, [], [SECOND]),
    ]:
        with subtests.test(last=last, noted=noted, kept=kept):
            assert [each.id for each in Epochs.noted(last, (Epoch(*each) for each in reversed(noted))).rows] == kept


def test_a_record_s_token_is_of_the_epoch_in_which_it_was_written() -> None:
    assert [EPOCHS.token_of(offset).epoch for offset in (0, 10, 11, 20, 21)] == [BORN, BORN, FIRST, FIRST, SECOND]
    assert EPOCHS.token_of(11) == Token(FIRST, 11)
    assert all(EPOCHS.has(EPOCHS.token_of(offset), 21) for offset in range(22))


def refusal_of(token: Token, *, is_of_primary: bool = True) -> type[ApiException] | None:
    head = StoreHead("c", EPOCHS, 25, 1, datetime(2026, 11, 27, tzinfo=UTC), is_of_primary)
    assert head.token == Token(SECOND, 25)
    try:
        head.check(token, "at")
    except ApiException as refusal:
        return type(refusal) if refusal.message.startswith("`at` is ") else None
    return None


def test_a_part_of_the_history_is_asked_about(subtests: pytest.Subtests) -> None:
    for token in [Token(BORN, 10), Token(FIRST, 20), Token(SECOND, 0), Token(SECOND, 25)]:
        for is_of_primary in (True, False):
            with subtests.test(token=token, is_of_primary=is_of_primary):
                assert refusal_of(token, is_of_primary=is_of_primary) is None


def test_anything_else_is_refused_and_nothing_is_lost_on_a_standby(subtests: pytest.Subtests) -> None:
    for token, refusal in [
        (Token(BORN, 11), TokenEpochMismatchException),
        (Token(FIRST, 21), TokenEpochMismatchException),
        (Token(UUID(int=1), 1), TokenEpochMismatchException),
        (Token(SECOND, 26), OffsetNotAvailableException),
        (Token(THIRD, 1), OffsetNotAvailableException),
        (Token(FAR, 1), TokenEpochInvalidException),
    ]:
        with subtests.test(token=token, refusal=refusal):
            assert refusal_of(token) is refusal
            assert refusal_of(token, is_of_primary=False) is OffsetNotAvailableException
