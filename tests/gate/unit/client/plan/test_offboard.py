"""What `klamm offboard` says about what it can't do, or can't know."""

import io

import pytest

from app.client.console import Page
from app.client.plan.command import StoreState
from app.client.plan.offboard import Rest, _print_rest, _rest
from app.core.kafka.bindings import NO_TERMS, AclTerms
from app.core.kafka.codes import ResourceType
from app.core.kafka.configs import AuthorizerConfig
from tests.updates import topic


def test_a_super_user_is_told_and_also_that_it_is_not_known(subtests: pytest.Subtests) -> None:
    for is_super_user, told in [
        (True, "User:leaver is a super user"),
        (False, ""),
        (None, "whether User:leaver is a super user: that needs DescribeConfigs on the cluster"),
    ]:
        with subtests.test(is_super_user=is_super_user, told=told):
            out = io.StringIO()
            _print_rest("User:leaver", Rest(owned=[], on_it=[], is_super_user=is_super_user), Page(out))
            assert told in out.getvalue()
            assert bool(told) is bool(out.getvalue())


def test_what_stays_is_what_others_hold_of_it_or_on_it_and_its_place_among_the_super_users() -> None:
    own = topic("own", "User:leaver")
    owned, on_it = topic("owned"), topic("User:leaver")._replace(resource_type=ResourceType.USER)
    acls = {
        own: AclTerms(None, "leaver"),
        owned: AclTerms(None, "Leaver"),
        on_it: NO_TERMS,
        topic("other"): AclTerms(None, "orders"),
        topic("User:leaver"): NO_TERMS,
    }
    for config, is_super_user in [
        (AuthorizerConfig(super_users=frozenset({"User:leaver"})), True),
        (AuthorizerConfig(super_users=frozenset({"User:other"})), False),
        (None, None),
    ]:
        rest = _rest(StoreState(acls, "e:1", config), "User:leaver")
        assert (rest.owned, rest.on_it, rest.is_super_user) == ([owned], [on_it], is_super_user)
