"""The verbs of tests/klamm.py on a process; tests/gate/unit/test_klamm.py shows the same ones without a socket."""

from pathlib import Path

from tests.klamm import acl, action, context, over_socket, replica
from tests.postgres import Postgres


def test_the_verbs_over_a_socket(postgres: Postgres) -> None:
    with replica(postgres.new_store()).ready() as klamm:
        assert klamm.authorize("User:alice", action("orders")) == ["DENIED"]
        done = klamm.create(acl("orders"), acl("payments", "User:bob", "WRITE", host="10.0.0.1"))
        assert klamm.authorize("User:alice", action("orders"), at_least=done["token"]) == ["ALLOWED"]
        assert klamm.authorize(context("User:bob", "10.0.0.1"), action("payments", "WRITE")) == ["ALLOWED"]
        assert [each["resource_name"] for each in klamm.acls(principal="User:bob")] == ["payments"]
        klamm.delete({"resource_name": "orders"})
        assert [each["resource_name"] for each in klamm.acls()] == ["payments"]


def test_a_data_folder_and_a_follower(tmp_path: Path) -> None:
    with (
        over_socket("--data-dir", "data", folder=tmp_path).ready() as klamm,
        replica(klamm.url).ready() as follower,
    ):
        token = follower.create(acl("orders"))["token"]
        assert follower.authorize("User:alice", action("orders"), at_least=token) == ["ALLOWED"]
        assert klamm.metric("klamm_acl_count") == 1
        assert follower.stop() == 0
