"""A file with one mutation: no ACL changes but by a name of its own, and none is lost without a word."""

import io
import random
from collections import Counter

import pytest

from app.formats.reading import FileSet
from app.formats.registry import FORMATS, AclFormat, read_entries
from app.formats.source import Source
from tests.acl_files.drawn import drawn_file
from tests.acl_files.file import AclFile, hard_file
from tests.acl_files.mutations import Mutation, Outcome, mutated, violation
from tests.budgets import seeds
from tests.laws.test_round_trips import random_set, what_can_be_said


def outcome(text: str, acl_format: AclFormat | None, of_cluster: str | None = None) -> Outcome:
    files = FileSet(of_cluster=of_cluster)
    return Outcome(list(read_entries(Source(io.BytesIO(text.encode())), files.reading(""), acl_format)), files)


def shown(file: AclFile, mutation: Mutation) -> str:
    return f"\n{file.text}\n-- became --\n{mutation.text}"


@pytest.mark.parametrize("acl_format", FORMATS, ids=lambda each: each.name)
def test_a_mutation_changes_one_name_or_is_refused(acl_format: AclFormat) -> None:
    came_of_it: Counter[str] = Counter()
    for seed in seeds("mutations"):
        draw = random.Random(seed)
        file = drawn_file(acl_format, draw)
        mutation = mutated(file, draw)
        given = acl_format if seed % 2 or not file.is_recognised else None
        of_cluster = file.cluster if draw.random() < 0.5 else None
        after = outcome(mutation.text, given, of_cluster)
        before = outcome(file.text, given, of_cluster) if after.left_out else after
        fault = violation(file, mutation, before, after)
        assert fault is None, (seed, fault, shown(file, mutation))
        came_of_it["refused" if after.is_refused else "same" if after.acls == Counter(file.acls) else "changed"] += 1
    assert came_of_it["refused"] > came_of_it["changed"] > 0
    assert came_of_it["same"] > 0


@pytest.mark.parametrize("acl_format", FORMATS, ids=lambda each: each.name)
def test_so_it_does_among_names_that_are_hard_to_write(acl_format: AclFormat) -> None:
    for seed in list(seeds("mutations"))[::4]:
        draw = random.Random(seed)
        raw, said = what_can_be_said(acl_format, random_set(seed))
        if not said:
            continue
        file = hard_file(raw.decode(), said)
        mutation = mutated(file, draw)
        after = outcome(mutation.text, acl_format)
        fault = violation(file, mutation, after, after, is_plain=False)
        assert fault is None, (seed, fault, shown(file, mutation))


@pytest.mark.parametrize("acl_format", FORMATS, ids=lambda each: each.name)
def test_a_drawn_file_means_what_was_drawn(acl_format: AclFormat) -> None:
    styles = set()
    for seed in seeds("mutations"):
        file = drawn_file(acl_format, random.Random(seed))
        found = outcome(file.text, acl_format)
        assert not found.is_refused, (seed, found.entries, file.text)
        assert found.acls == Counter(file.acls), (seed, file.text)
        styles.add(file.style)
    assert len(styles) > 1 or acl_format.name == "jsonl"
