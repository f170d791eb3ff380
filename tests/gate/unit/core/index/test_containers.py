import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.index.containers import ShardedDict, SortedNames


def names_in_order(names: SortedNames) -> list[str]:
    return names.first(len(names), None, including=True)


def filled(names: list[str]) -> SortedNames:
    sorted_names = SortedNames()
    for name in names:
        sorted_names.add(name)
    return sorted_names


@given(st.lists(st.text(max_size=4), unique=True), st.data())
def test_names_stay_in_code_point_order_through_every_add_and_remove(names: list[str], data: st.DataObject) -> None:
    held = filled(names)
    assert names_in_order(held) == sorted(names)
    going = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    for name in going:
        held.remove(name)
    left = sorted(set(names) - set(going))
    assert names_in_order(held) == left
    assert len(held) == len(left)


@pytest.mark.parametrize("order", ["rising", "falling", "shuffled"])
def test_thousands_of_names_stay_in_order_however_they_come(order: str) -> None:
    names = [f"{n:05d}" for n in range(4_000)]
    coming = {"rising": names, "falling": names[::-1], "shuffled": random.Random(7).sample(names, len(names))}[order]
    held = filled(coming)
    assert names_in_order(held) == names
    for name in coming[::2]:
        held.remove(name)
    left = sorted(coming[1::2])
    assert names_in_order(held) == left
    for name in coming[1::2]:
        held.remove(name)
    assert names_in_order(held) == []
    assert len(held) == 0
    held.add("again")
    assert names_in_order(held) == ["again"]


def test_a_name_finds_its_place_at_the_seam_of_a_block_that_has_just_split(subtests: pytest.Subtests) -> None:
    for added in range(1_019, 1_031, 2):
        with subtests.test(added=added):
            even = [f"{n:05d}" for n in range(0, 2_048, 2)]
            held = filled(even[::-1])
            held.add(f"{added:05d}")
            assert names_in_order(held) == sorted([*even, f"{added:05d}"])
            held.remove(f"{added:05d}")
            assert names_in_order(held) == even


def test_a_walk_in_pages_sees_every_name_once(subtests: pytest.Subtests) -> None:
    for including in [True, False]:
        for count in [1, 7, 511, 512, 513, 3_000]:
            with subtests.test(including=including, count=count):
                names = [f"{n:05d}" for n in range(0, 3_000, 2)]
                held = filled(names)
                for start in (None, "", "00000", "00001", "01022", "01023", "02998", "99999"):
                    seen: list[str] = []
                    page = held.first(count, start, including=including)
                    while page:
                        assert len(page) <= count
                        seen += page
                        page = held.first(count, seen[-1], including=False)
                    expected = [n for n in names if start is None or n > start or (including and n == start)]
                    assert seen == expected


def test_a_sharded_dict_is_a_dictionary() -> None:
    held: ShardedDict[str, int] = ShardedDict()
    plain = {f"key {n}": n for n in range(1_000)}
    for key, value in plain.items():
        held.put(key, value)
    held.put("key 7", -7)
    plain["key 7"] = -7
    held.remove("key 8")
    del plain["key 8"]
    assert dict(held.items()) == plain
    assert len(held) == len(plain)
    assert held.get("key 8") is None
    assert held.get("key 7") == -7
    with pytest.raises(KeyError):
        held.remove("key 8")


def test_dismantling_frees_in_many_short_steps() -> None:
    held: ShardedDict[str, int] = ShardedDict()
    held.put("a", 1)
    assert sum(1 for _ in held.dismantle()) == 256
    names = filled([f"{n:05d}" for n in range(9_000)])
    assert sum(1 for _ in names.dismantle()) >= 4
    assert len(names) == 0
