"""Keys that are followed: read again and again, kept through failures, and looked for when a token asks."""

import asyncio
import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from app.rest.callers.key_sets import KeySet
from app.rest.callers.signing_keys import KeySetError, SigningKeys, read_key_set
from tests.issuers import Key, key_set
from tests.virtual_time import in_virtual_time, now

OLD, NEW = Key("old"), Key("new")


def of(*keys: Key) -> SigningKeys:
    return read_key_set(key_set(*keys))


@dataclass
class Source:
    """Gives what it is told to, after a while; `looked_at` are the times when it was asked."""

    keys: SigningKeys | KeySetError | Exception | None
    takes_s: float = 0.0
    name: str = "source"
    files: Mapping[str, str] = field(default_factory=lambda: {"bearer_file": "token"})
    each_s: float = 300.0
    first_rest_s: float = 1.0
    longest_rest_s: float = 60.0
    spacing_s: float = 10.0
    looked_at: list[float] = field(default_factory=list)

    async def read(self) -> SigningKeys | None:
        self.looked_at.append(now())
        found = self.keys
        await asyncio.sleep(self.takes_s)
        if isinstance(found, Exception):
            raise found
        return found


def are_drawn(looked_at: Sequence[float], rests: Sequence[tuple[float, float]]) -> bool:
    """Whether the rest after each of these looks is between those two."""
    took_s = (later - earlier for earlier, later in itertools.pairwise(looked_at))
    return all(least <= each <= most + 0.01 for each, (least, most) in zip(took_s, rests, strict=True))


def has(keys: KeySet, key: Key) -> bool:
    return keys.key(key.kid, "ES256") is not None


@in_virtual_time
async def test_keys_are_read_at_once_and_every_five_minutes() -> None:
    source = Source(of(OLD))
    keys = KeySet(source)
    keys.open()
    await asyncio.sleep(601)
    await keys.close()
    assert source.looked_at[0] < 0.001
    assert are_drawn(source.looked_at[:3], [(270, 300)] * 2)
    assert has(keys, OLD)
    looks = len(source.looked_at)
    await asyncio.sleep(1000)
    assert len(source.looked_at) == looks


@in_virtual_time
async def test_looks_are_spread_so_that_replicas_do_not_come_together() -> None:
    sources = [Source(of(OLD)) for _ in range(10)]
    keys = [KeySet(source) for source in sources]
    for each in keys:
        each.open()
    await asyncio.sleep(301)
    for each in keys:
        await each.close()
    seconds = [source.looked_at[1] for source in sources]
    assert max(seconds) - min(seconds) > 1


@in_virtual_time
async def test_a_new_key_comes_and_an_old_one_goes_with_the_next_look() -> None:
    source = Source(of(OLD))
    keys = KeySet(source)
    keys.open()
    await asyncio.sleep(1)
    source.keys = of(NEW)
    await asyncio.sleep(300)
    await keys.close()
    assert has(keys, NEW)
    assert not has(keys, OLD)


@in_virtual_time
async def test_the_generation_rises_when_keys_change_and_only_then() -> None:
    source = Source(of(OLD))
    keys = KeySet(source)
    seen = [keys.generation]
    for found in (of(OLD), of(OLD), None, of(OLD, NEW), KeySetError("gone"), of(NEW), of(), of()):
        source.keys = found
        await keys.refresh()
        seen.append(keys.generation)
    assert seen == [0, 1, 1, 1, 2, 2, 3, 4, 4]


@in_virtual_time
async def test_the_order_of_a_set_and_what_is_ignored_in_it_change_nothing() -> None:
    source = Source(of(OLD, NEW))
    keys = KeySet(source)
    await keys.refresh()
    source.keys = read_key_set(key_set({"kty": "oct"}, NEW, OLD))
    await keys.refresh()
    assert keys.generation == 1


@in_virtual_time
async def test_a_failure_keeps_the_keys_and_is_retried_with_longer_and_longer_rests() -> None:
    source = Source(of(OLD))
    keys = KeySet(source)
    keys.open()
    await asyncio.sleep(1)
    source.keys = KeySetError("gone")
    source.looked_at.clear()
    await asyncio.sleep(490)
    assert has(keys, OLD)
    rests = (1, 2, 4, 8, 16, 32, 60, 60)
    assert are_drawn(source.looked_at[: len(rests) + 1], [(rest / 2, rest) for rest in rests])
    source.keys = of(NEW)
    await asyncio.sleep(60)
    assert has(keys, NEW)
    source.keys = KeySetError("gone again")
    source.looked_at.clear()
    await asyncio.sleep(305)
    await keys.close()
    first, second, *_ = source.looked_at
    assert round(second - first) == 1


@in_virtual_time
async def test_a_set_that_was_never_read_lets_nobody_in_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    source = Source(KeySetError("it answered with status 404"))
    keys = KeySet(source)
    await keys.refresh()
    assert not keys.was_read
    assert not has(keys, OLD)
    (line,) = caplog.records
    assert (line.levelname, line.message) == ("ERROR", "key_set_never_read")
    assert vars(line)["why"] == "it answered with status 404"
    assert (vars(line)["source"], vars(line)["bearer_file"]) == ("source", "token")


@in_virtual_time
async def test_a_later_failure_is_a_warning_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    source = Source(of(OLD), each_s=1.0, longest_rest_s=1.0)
    keys = KeySet(source)
    keys.open()
    await asyncio.sleep(0.5)
    source.keys = KeySetError("gone")
    await asyncio.sleep(90)
    assert [line.message for line in caplog.records if line.levelno > logging.INFO] == ["key_set_not_refreshed"] * 2
    source.keys = KeySetError("something else")
    await asyncio.sleep(2)
    await keys.close()
    assert vars(caplog.records[-1])["why"] == "something else"


@in_virtual_time
async def test_a_fault_that_nobody_foresaw_does_not_end_the_looking(caplog: pytest.LogCaptureFixture) -> None:
    source = Source(ZeroDivisionError())
    keys = KeySet(source)
    keys.open()
    await asyncio.sleep(0.5)
    source.keys = of(NEW)
    await asyncio.sleep(1)
    await keys.close()
    assert has(keys, NEW)
    assert caplog.records[0].message == "key_set_fault"


@in_virtual_time
async def test_one_line_says_what_a_set_holds_and_what_was_ignored(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    keys = KeySet(
        Source(read_key_set(key_set(NEW, {"kty": "oct", "k": "planted"}, {"kty": "oct"}, OLD.jwk(use="enc"))))
    )
    await keys.refresh()
    (line,) = caplog.records
    assert line.message == "key_set_read"
    assert vars(line)["keys"] == 1
    assert vars(line)["ignored"] == "not_for_signatures:1,symmetric:2"
    assert "planted" not in str(vars(line))


@in_virtual_time
async def test_a_set_without_keys_is_believed_and_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    source = Source(of(OLD))
    keys = KeySet(source)
    await keys.refresh()
    source.keys = of()
    await keys.refresh()
    assert not has(keys, OLD)
    assert [line.message for line in caplog.records if line.levelno == logging.WARNING] == ["key_set_read"]


@in_virtual_time
async def test_all_that_miss_a_key_share_one_look_and_find_it() -> None:
    source = Source(of(OLD))
    keys = KeySet(source)
    await keys.refresh()
    source.keys, source.takes_s = of(OLD, NEW), 0.5
    began = now()
    await asyncio.gather(*(keys.look_again() for _ in range(100)))
    assert now() - began == pytest.approx(0.5, abs=0.01)
    assert len(source.looked_at) == 2
    assert has(keys, NEW)


@in_virtual_time
async def test_unknown_keys_cause_one_look_in_ten_seconds_and_others_do_not_wait() -> None:
    source = Source(of(OLD))
    keys = KeySet(source)
    await keys.refresh()
    source.looked_at.clear()
    for _ in range(300):
        began = now()
        await keys.look_again()
        assert now() - began < 1.01
        await asyncio.sleep(0.1)
    looks = source.looked_at
    assert len(looks) == 4
    assert all(later - earlier >= 10 for earlier, later in itertools.pairwise(looks))


@in_virtual_time
async def test_who_comes_during_a_look_waits_for_it_and_a_look_from_before_counts_for_less() -> None:
    source = Source(of(OLD), takes_s=1.0, spacing_s=0.1)
    keys = KeySet(source)
    look = asyncio.create_task(keys.refresh())
    await asyncio.sleep(0.5)
    source.keys = of(NEW)  # after the look under way has seen the old ones
    await keys.look_again()
    assert has(keys, NEW)
    assert len(source.looked_at) == 2
    await look


@in_virtual_time
async def test_a_wait_for_a_key_is_bounded() -> None:
    source = Source(of(OLD), takes_s=1000.0)
    keys = KeySet(source)
    await keys.look_again()
    assert now() == pytest.approx(4.0, abs=0.01)
    await keys.close()


@in_virtual_time
async def test_those_that_wait_are_bounded_in_number() -> None:
    source = Source(of(OLD), takes_s=2.0)
    keys = KeySet(source)
    waiting = [asyncio.create_task(keys.look_again()) for _ in range(1000)]
    await asyncio.sleep(1)
    began = now()
    await keys.look_again()
    assert now() - began < 0.01
    await asyncio.gather(*waiting)


@in_virtual_time
async def test_one_that_leaves_does_not_end_the_look_for_the_others() -> None:
    source = Source(of(NEW), takes_s=1.0)
    keys = KeySet(source)
    first = asyncio.create_task(keys.look_again())
    others = asyncio.create_task(keys.look_again())
    await asyncio.sleep(0.5)
    first.cancel()
    await others
    assert has(keys, NEW)
    assert len(source.looked_at) == 1
