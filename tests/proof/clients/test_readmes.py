"""The README.md of each generated client: it is Klamm's, and its first call works as it is pasted."""

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.klamm import ROOT, Process, acl
from tests.proof.clients.conftest import ClientOf
from tests.proof.clients.test_clients_page import FENCES, RUNS

DEFAULT_URL = "http://127.0.0.1:8080"
FILES = {"python": "first.py", "java": "FirstCall.java", "go": "first.go", "typescript": "first.ts"}


@pytest.fixture(scope="module")
def with_example(service: Process) -> Iterator[Process]:
    """A service with the ACL of examples/acls.json that the first calls ask for."""
    theirs = {"principal": "User:svc-checkout", "resource_name": "checkout."}
    assert [acl for acl in _examples() if acl.items() >= theirs.items() and acl["operation"] == "WRITE"]
    service.create(acl("checkout.", pattern_type="PREFIXED", operation="WRITE", principal="User:svc-checkout"))
    yield service
    service.delete(theirs)


def _examples() -> list[dict[str, str]]:
    acls: list[dict[str, str]] = json.loads((ROOT / "examples" / "acls.json").read_text(encoding="utf-8"))["bindings"]
    return acls


def readme(client: Path) -> str:
    return (client / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("language", FENCES)
def test_the_first_call_of_the_readme_works_as_it_is_pasted(
    client_of: ClientOf, with_example: Process, tmp_path: Path, language: str
) -> None:
    client = client_of(language)
    (block,) = re.findall(rf"^```{FENCES[language]}\n(.*?)^```", readme(client), re.MULTILINE | re.DOTALL)
    assert block.count(DEFAULT_URL) == 1
    folder = tmp_path / "first"
    folder.mkdir()
    program = folder / FILES[language]
    program.write_text(block.replace(DEFAULT_URL, with_example.url), encoding="utf-8")
    assert RUNS[language](client, tmp_path, program).split() == ["ALLOWED"]


@pytest.mark.parametrize("language", FENCES)
def test_the_readme_and_all_that_comes_with_it_speak_of_klamm_and_of_no_service_that_is_not_there(
    client_of: ClientOf, language: str
) -> None:
    client = client_of(language)
    text = readme(client)
    assert "Klamm" in text
    assert "openapi.json" in text
    assert DEFAULT_URL in text
    texts = (path for path in client.rglob("*") if path.is_file() and "node_modules" not in path.parts)
    assert not [path for path in texts if b"api.example.com" in path.read_bytes()]
    assert not re.search(r"\w*\.example\.com|YOUR_|localhost|TODO|GIT_", text)


def test_the_python_wheel_describes_itself_by_the_readme(client_of: ClientOf) -> None:
    (wheel,) = (client_of("python") / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        assert readme(client_of("python")) in archive.read(metadata).decode()
