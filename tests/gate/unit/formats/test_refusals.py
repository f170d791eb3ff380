"""One mistake anywhere in a file is told once, with its line and its field. The mistakes are drawn from the shapes."""

from collections import Counter

import pytest

from app.formats.registry import format_named
from tests.acl_shapes import EMITS, Mistake, fields_of, levels_of, mistakes, passed_over, problems_in, shapes_in, takes_any_name
from tests.acl_whole_files import WHOLE, Whole

LEAST_MISTAKES = 2_000


def told(whole: Whole, mistake: Mistake) -> str | None:
    """What is wrong with what is told of it; None if nothing is."""
    written = EMITS[whole.style](mistake.tree)
    problems = problems_in(format_named(whole.format_name), written.text)
    lines = mistake.lines(written)
    shown = f"{mistake.kind} `{mistake.says}` in line {lines}: {problems}\n{written.text}"
    if len(problems) != 1:
        return f"told {len(problems)} times: {shown}"
    ((line, problem),) = problems
    if line not in lines:
        return f"told of line {line}: {shown}"
    return None if f"`{mistake.says}`" in problem else f"the field is not named: {shown}"


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_file_is_read_and_has_every_block_of_its_shapes(name: str) -> None:
    whole = WHOLE[name]
    acl_format = format_named(whole.format_name)
    assert problems_in(acl_format, EMITS[whole.style](whole.tree).text) == []
    levels = levels_of(acl_format, whole.tree, EMITS[whole.style])
    met = {each.shape for each in levels}
    assert met
    assert set().union(*(shapes_in(each) for each in met)) == met


@pytest.mark.parametrize("name", WHOLE)
def test_each_mistake_is_told_once_with_its_line_and_field(name: str) -> None:
    whole = WHOLE[name]
    levels = levels_of(format_named(whole.format_name), whole.tree, EMITS[whole.style])
    faults = [fault for each in mistakes(whole.tree, levels) if (fault := told(whole, each)) is not None]
    assert not faults, f"{len(faults)} faults, such as {faults[0]}"


def test_there_are_enough_mistakes() -> None:
    kinds: Counter[str] = Counter()
    for whole in WHOLE.values():
        levels = levels_of(format_named(whole.format_name), whole.tree, EMITS[whole.style])
        kinds.update(each.kind for each in mistakes(whole.tree, levels))
    assert kinds.total() > LEAST_MISTAKES
    assert min(kinds[each] for each in ("unknown", "misspelt", "misplaced", "doubled", "missing")) > 100
