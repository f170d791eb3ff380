"""docs/clients.md: every program on the page does what it says, and every flag that it explains is set."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.clients.languages import HERE
from tests.klamm import ROOT, Process, acl, action
from tests.proof.clients.conftest import ClientOf
from tests.proof.clients.programs_run import compiled_typescript, go, java, python, said

PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
JAVA = """\
import io.klamm.client.*;
import io.klamm.client.api.*;
import io.klamm.client.model.*;
import java.time.Duration;
import java.util.List;

class Page {
    public static void main(String[] none) throws Exception {
        String token = "none";
"""
GO = """\
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	klamm "klamm.example/clients/go"
)

func main() {
	ctx, token := context.Background(), "none"
"""
AROUND = {
    "python": ("", ""),
    "java": (JAVA, "}}"),
    "go": (GO, "}\n"),
    "typescript": ('const readToken = async () => "none";\n', ""),
}
"""What a program has before and after what the page shows of it."""

FENCES = {"python": "python", "java": "java", "go": "go", "typescript": "ts"}
FILES = {"python": "page.py", "java": "Page.java", "go": "page.go", "typescript": "page.ts"}


@pytest.fixture(scope="module")
def token(service: Process) -> Iterator[str]:
    """The state in which alice may read what the page's programs ask for."""
    made = service.create(acl("orders"))
    yield str(made["token"])
    service.delete({"resource_name": "orders"})


def _typescript(client: Path, folder: Path, program: Path) -> str:
    work = folder / "work"
    work.mkdir()
    return said(["node", compiled_typescript(client, work, program.parent) / f"{program.stem}.js"], folder)


RUNS: dict[str, Callable[[Path, Path, Path], str]] = {
    "python": python,
    "java": java,
    "go": go,
    "typescript": _typescript,
}


@pytest.mark.parametrize("language", FENCES)
def test_the_pages_program_asks_and_prints_the_decision_and_its_token(
    client_of: ClientOf, service: Process, token: str, tmp_path: Path, language: str
) -> None:
    assert service.authorize("User:alice", action("orders"), at_least=token) == ["ALLOWED"]
    (block,) = re.findall(rf"^```{FENCES[language]}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert "http://127.0.0.1:8080" in block
    before, after = AROUND[language]
    folder = tmp_path / "page"
    folder.mkdir()
    program = folder / FILES[language]
    program.write_text(before + block.replace("http://127.0.0.1:8080", service.url) + after, encoding="utf-8")
    assert RUNS[language](client_of(language), tmp_path, program).lower().split() == ["true", token]


@pytest.mark.parametrize("language", ["java", "go"])
def test_every_flag_that_the_page_explains_is_set(language: str) -> None:
    section = PAGE.partition(f"\n## {language.capitalize()}\n")[2].partition("\n## ")[0]
    explained = re.findall(r"^\| `(\w+)=(\w+)` \|", section, re.MULTILINE)
    assert explained
    settings = (HERE / language / "generator.json").read_text(encoding="utf-8")
    for name, value in explained:
        assert re.search(rf'"{name}": "?{value}"?[,\n]', settings), name
