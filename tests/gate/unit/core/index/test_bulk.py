"""Rows added together make the index that the same rows make one by one."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from app.core.index.buckets import HOT
from app.core.index.bulk import add_rows
from app.core.index.table import sort_key
from app.core.index.tree import AclIndex
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import PatternType
from tests.dumps import dump
from tests.images import numbered
from tests.strategies import binding_lists
from tests.updates import topic

CROWD = [topic("a", f"User:{n:03d}") for n in range(HOT + 3)]
HOSTS = [topic("b")._replace(host=host) for host in ("*", "10.0.0.1", "10.0.0.0/8", "10.0.0.0/24", "::1", "no/range")]
PREFIXES = [topic("a" * length, pattern_type=PatternType.PREFIXED) for length in range(1, 5)]


@given(binding_lists, st.lists(st.integers(1, 40), max_size=6), st.booleans())
@example([*CROWD, *HOSTS, *PREFIXES], [], True)  # noqa: FBT003 - drawn
@example([*CROWD, *HOSTS, *PREFIXES], [10, 66, 70], True)  # noqa: FBT003 - drawn
def test_rows_in_slices_of_any_length_and_order_are_the_same_index(
    bindings: Sequence[AclBinding],
    cuts: list[int],
    ordered: bool,  # noqa: FBT001 - drawn
) -> None:
    distinct = list(dict.fromkeys(bindings))
    rows = [acl.row for acl in numbered(sorted(distinct, key=sort_key) if ordered else distinct)]
    one_by_one, together = AclIndex(), AclIndex()
    for row in rows:
        one_by_one.add(row)
    places = [0, *sorted(cuts), len(rows)]
    for start, end in pairwise(places):
        add_rows(together, rows[start:end])
    assert dump(together) == dump(one_by_one)
