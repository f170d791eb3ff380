"""The careful way of the heat map, without Spark: sorted rows in, what is left of each ALLOW out."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest

from app.core.index.masks import host_matches
from app.core.kafka.hosts import parse_address
from tests.budgets import seeds

HOSTS = ("*", "10.0.0.1", "10.0.0.2", "10.0.0.0/30", "10.0.0.0/31", "0.0.0.0/0", "::/0", "not-an-address")
ADDRESSES = [parse_address(text) for text in ("10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3", "9.9.9.9", "2001:db8::1")]
COLUMNS = ("resource_type", "resource_name", "whose", "turn", "team", "host", "mask")

Row = tuple[str, str, str, int, str | None, str, int]


def drawn_rows(seed: int) -> list[Row]:
    from app.pipeline.report.reach import _ALL_DENY, _ALLOW, _DENY

    draw = Random(seed)
    rows: list[Row] = []
    for name in ("a", "ab", "b", "😀"):
        for whose in ("", "User:*", "User:a", "User:b"):
            turns = (_ALL_DENY,) if whose == "" else (_ALLOW,) if whose == "User:*" else (_DENY, _ALLOW)
            for turn in turns:
                rows += [
                    (
                        *("TOPIC", name, whose, turn),
                        f"team of {whose}" if turn == _ALLOW else None,
                        draw.choice(HOSTS),
                        draw.choice((8, 16, 24)),
                    )
                    for _ in range(draw.randint(0, 3))
                ]
    return sorted(rows, key=lambda row: row[:4])


def by_core(rows: list[Row]) -> dict[tuple[str, str], int]:
    from app.pipeline.report.reach import _ALLOW

    left: dict[tuple[str, str], int] = defaultdict(int)
    for _, name, whose, turn, team, host, mask in rows:
        if turn != _ALLOW:
            continue
        denied = [row for row in rows if row[1] == name and row[2] in ("", whose) and row[3] != _ALLOW]
        for address in ADDRESSES:
            if host_matches(host, address):
                taken = 0
                for row in denied:
                    taken |= row[6] if host_matches(row[5], address) else 0
                left[name, str(team)] |= mask & ~taken
    return {key: bits for key, bits in left.items() if bits}


def batched(rows: list[Row], size: int) -> Iterator[list[Row]]:
    stream = iter(rows)
    return iter(lambda: list(islice(stream, size)), [])


def test_an_allow_is_worth_what_no_deny_takes_wherever_batches_end(subtests: pytest.Subtests) -> None:
    import pyarrow as pa

    from app.pipeline.report.reach import _surviving

    for size in [1, 2, 7, 1_000]:
        for seed in seeds("reach of teams"):
            with subtests.test(size=size, seed=seed):
                rows = drawn_rows(seed)
                batches = [
                    pa.RecordBatch.from_arrays(
                        [pa.array(column) for column in zip(*part, strict=True)], names=list(COLUMNS)
                    )
                    for part in batched(rows, size)
                ]
                found: dict[tuple[str, str], int] = defaultdict(int)
                for batch in _surviving(iter(batches)):
                    assert batch.schema.names == ["resource_type", "resource_name", "team", "bits"]
                    for row in batch.to_pylist():
                        found[row["resource_name"], row["team"]] |= row["bits"]
                assert dict(found) == by_core(rows)
