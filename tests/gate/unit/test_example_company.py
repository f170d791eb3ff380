"""The example company is the same every time, and of a size that shows something."""

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.validation import validate_new_acl
from examples.company import TEAMS, candidate, company, questions


def test_the_same_seed_makes_the_same_company_and_the_same_day() -> None:
    assert company() == company()
    assert company(1) != company(2)
    for wave in (1, 5):
        assert list(questions(company(), wave, 500)) == list(questions(company(), wave, 500))


def test_its_size_is_that_of_a_company() -> None:
    made = company()
    assert len(TEAMS) == 12
    assert 300 <= len(made.resources) == len(set(made.resources)) <= 600
    bindings = [tuple(binding.values()) for wave in made.waves for binding in wave.bindings]
    assert 2_000 <= len(bindings) == len(set(bindings)) <= 4_000


def test_every_acl_is_one_that_createacls_takes() -> None:
    created = candidate()["create"]["bindings"]
    assert isinstance(created, list)
    for fields in [*created, *(binding for wave in company().waves for binding in wave.bindings)]:
        acl = AclBinding(
            ResourceType[fields["resource_type"]],
            fields["resource_name"],
            PatternType[fields["pattern_type"]],
            fields["principal"],
            fields["host"],
            AclOperation[fields["operation"]],
            AclPermissionType[fields["permission_type"]],
        )
        assert validate_new_acl(acl) is None


def test_each_wave_asks_as_often_as_it_is_told_in_calls_that_fit_a_request() -> None:
    made = company()
    for wave in range(len(made.waves)):
        calls = [actions for _, actions in questions(made, wave, 1_000)]
        assert sum(map(len, calls)) == 1_000
        assert all(0 < len(actions) <= 1_000 for actions in calls)
