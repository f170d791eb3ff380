"""What `klamm offboard` says about what it can't do, or can't know."""

import io

import pytest

from app.client.console import Page
from app.client.plan.offboard import Rest, _print_rest


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
