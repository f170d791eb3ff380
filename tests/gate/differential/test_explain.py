"""explain against Kafka 4.4.0's own answers: the same result, and advice that holds when it is followed."""

from collections.abc import Iterator

from app.core.explain.misses import Question
from app.core.explain.why import smallest_acl
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.errors import AuthorizerNotReadyException
from app.core.kafka.hosts import parse_address
from tests.advice import broken_promises, explained
from tests.budgets import budget
from tests.gate.differential.scenes import image_in
from tests.vectors.loader import Line, lines

EVERY = budget("lines of the vectors")


def questions_in(line: Line, answers: str) -> Iterator[tuple[Question, str]]:
    for request in line["requests"]:
        for action, expected in zip(request["actions"], request[answers], strict=True):
            asked = Question(
                request["principal"],
                parse_address(request["host"]),
                AclOperation.from_string(action["operation"]),
                ResourceType.from_string(action["resource_type"]),
                action["resource_name"],
            )
            yield asked, expected


def differences(line: Line, answers: str) -> Iterator[str]:
    image = image_in(line)
    for asked, expected in questions_in(line, answers):
        where = f"line {line['n']} ({line['category']}): {asked}"
        try:
            found = explained(image, asked)
        except AuthorizerNotReadyException:
            if expected != "ERROR:AuthorizerNotReadyException":
                yield f"{where}: not ready, not {expected}"
            continue
        if found.verdict.result.value != expected:
            yield f"{where}: not {expected}"
        yield from (f"{where}: {each}" for each in broken_promises(image, asked, found))


def test_explain_agrees_with_kafka_and_its_advice_holds() -> None:
    assert [each for line in lines("authorize", EVERY) for each in differences(line, "expected")] == []


def test_where_kafka_breaks_its_rules_explain_follows_the_rules() -> None:
    found = [each for line in lines("authorize_quirks") for each in differences(line, "documented_rules_say")]
    assert found == []


def test_the_vectors_ask_for_every_kind_of_advice() -> None:
    """Otherwise the tests above would show less than they say."""
    kinds: set[tuple[bool, ...]] = set()
    for line in lines("authorize", 10):
        image = image_in(line)
        for asked, _ in questions_in(line, "expected") if line.get("loaded", True) else ():
            found = explained(image, asked)
            is_wide = not found.verdict.allowed and smallest_acl(asked).note is not None
            kinds.add(
                (
                    found.verdict.allowed,
                    found.smallest_acl is not None,
                    bool(found.denying_acls),
                    found.acl_needed_besides is not None,
                    is_wide,
                )
            )
    assert kinds >= {
        (True, False, False, False, False),
        (False, True, False, False, False),
        (False, True, False, False, True),
        (False, False, True, False, False),
        (False, False, True, True, False),
        (False, False, False, False, True),
    }
