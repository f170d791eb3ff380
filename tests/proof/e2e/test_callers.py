"""Callers where properties and tokens change, before the store is loaded, and without any: services of their own."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from app.rest.callers.token_file import add_token, retire_tokens
from tests.callers import STATIC, Corp, write_configuration
from tests.klamm import LIMIT_S, SUPER_USER, Process, action, context, over_socket
from tests.planted import hear, plant
from tests.surroundings import without_ours

ALICE = "User:alice"


class World(NamedTuple):
    """A service that knows callers."""

    service: Process
    tokens: Mapping[str, str]

    def asserted(self, token: str, principal: str) -> int:
        """The status of a question that this token's caller asks for this principal."""
        headers = {"authorization": f"Bearer {token}"}
        body = {"context": context(principal), "actions": [action("orders")]}
        return self.service.http.post("/v1/authorize", json=body, headers=headers).status_code


@pytest.fixture
def world(tmp_path: Path, migrated_database_url: str) -> Iterator[World]:
    tokens = write_configuration(tmp_path, Corp())
    with over_socket(settings={"KLAMM_DATABASE_URL": migrated_database_url}, folder=tmp_path) as service:
        yield World(service.ready(), tokens)


def test_one_made_a_super_user_can_not_be_spoken_for_from_then_on(world: World) -> None:
    headers = {"authorization": f"Bearer {world.tokens['root']}"}
    change = {"context": context(), "configs": [{"name": "super.users", "value": f"{SUPER_USER};User:risen"}]}
    assert world.asserted(world.tokens["anyone"], "User:risen") == 200
    answer = world.service.http.post("/v1/configs", json=change, headers=headers)
    assert answer.json()["results"][0]["code"] == "NONE"
    assert world.asserted(world.tokens["anyone"], "User:risen") == 403
    change["configs"] = [{"name": "super.users", "value": None}]
    assert world.service.http.post("/v1/configs", json=change, headers=headers).status_code == 200
    assert world.asserted(world.tokens["anyone"], "User:risen") == 200


def test_before_the_store_is_loaded_super_users_can_not_be_spoken_for_either(tmp_path: Path) -> None:
    tokens = write_configuration(tmp_path, Corp())
    nowhere = {"KLAMM_DATABASE_URL": "postgresql://klamm@127.0.0.1:9/klamm"}
    with over_socket(settings=nowhere, folder=tmp_path) as service:
        cold = World(service, tokens)
        assert cold.asserted(tokens["anyone"], ALICE) == 503
        assert cold.asserted(tokens["anyone"], SUPER_USER) == 403
        assert cold.asserted(tokens["orders"], SUPER_USER) == 403
        assert cold.asserted(tokens["orders"], ALICE) == 403
        assert cold.asserted(tokens["broker"], SUPER_USER) == 200
        assert cold.asserted("klamm_nonsense", SUPER_USER) == 401


def test_tokens_rotate_without_a_failed_request(world: World, tmp_path: Path) -> None:
    file, old = tmp_path / "klamm.tokens", world.tokens["orders"]
    for _ in range(20):
        new = plant(add_token(file, "orders", STATIC))
        # The very first request with it, and the old one's meanwhile.
        assert world.asserted(new, "User:orders-1") == 200
        assert world.asserted(old, "User:orders-1") == 200
        retire_tokens(file, "orders", STATIC)
        for _ in range(20):
            assert world.asserted(new, "User:orders-1") == 200
        old = new


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - that this is refused is what is shown
def test_strangers_are_not_let_in_without_callers(tmp_path: Path, host: str) -> None:
    klamm = Path(sys.executable).with_name("klamm")
    clean = without_ours()
    command = [str(klamm), "serve", "--host", host, "--port", "0"]
    found = subprocess.run(
        command, cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    hear(f"{found.stdout}\n{found.stderr}")
    assert found.returncode == 2
    assert "callers" in found.stderr
    assert "127.0.0.1" in found.stderr
    assert not (tmp_path / ".klamm").exists()
