"""What is installed, audited and promised: the locks, their audit, and SECURITY.md."""

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
SERVES = [*PROJECT["project"]["dependencies"], *EXTRAS["embedded"], *EXTRAS["otel"]]
PIPELINE = [*PROJECT["project"]["dependencies"], *EXTRAS["spark"]]
ALL = [*SERVES, *PIPELINE, *EXTRAS["dev"], *PROJECT["build-system"]["requires"]]
LOCKS = {"requirements.lock": SERVES, "requirements-spark.lock": PIPELINE, "requirements-dev.lock": ALL}
SECURITY = (ROOT / "SECURITY.md").read_text()


class Pin(NamedTuple):
    requirement: Requirement
    hashes: frozenset[str]

    @property
    def version(self) -> Version:
        (specifier,) = self.requirement.specifier
        assert specifier.operator == "=="
        return Version(specifier.version)

    @property
    def installed_here(self) -> bool:
        return self.requirement.marker is None or self.requirement.marker.evaluate()


def _lines(lock: str) -> list[str]:
    text = (ROOT / lock).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _pins(lock: str) -> dict[NormalizedName, Pin]:
    pins: dict[NormalizedName, Pin] = {}
    for line in _lines(lock):
        requirement, *hashes = re.split(r"\s+--hash=", line.strip())
        pin = Pin(Requirement(requirement), frozenset(hashes))
        name = canonicalize_name(pin.requirement.name)
        assert name not in pins, f"{name} stands twice in {lock}"
        pins[name] = pin
    return pins


def _declared(texts: list[str]) -> list[Requirement]:
    """The project's own name stands for its extras, which are declared as well."""
    return [requirement for text in texts if (requirement := Requirement(text)).name != "klamm"]


def _needed(requirement: Requirement) -> list[Requirement]:
    """What an installed distribution needs here, with the extras that are asked of it."""
    contexts = [{"extra": extra} for extra in requirement.extras] or [{"extra": ""}]
    needed = [Requirement(text) for text in metadata.requires(requirement.name) or ()]
    return [each for each in needed if not each.marker or any(each.marker.evaluate(context) for context in contexts)]


def _reached(declared: list[Requirement]) -> dict[NormalizedName, list[Requirement]]:
    """All that the declared requirements lead to on this machine, as their installed metadata say."""
    reached: dict[NormalizedName, list[Requirement]] = {}
    seen: set[tuple[NormalizedName, frozenset[str]]] = set()
    waiting = [requirement for requirement in declared if not requirement.marker or requirement.marker.evaluate()]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        reached.setdefault(name, []).append(requirement)
        if (name, frozenset(requirement.extras)) not in seen:
            seen.add((name, frozenset(requirement.extras)))
            waiting += _needed(requirement)
    return reached


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_entry_is_one_version_with_hashes_and_comes_from_no_address(lock: str) -> None:
    pins = _pins(lock)
    assert pins
    for name, pin in pins.items():
        assert pin.version, name
        assert pin.requirement.url is None, name
        assert pin.hashes, name
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in pin.hashes), name
    assert "klamm" not in pins, "the project itself is installed from its folder, never by name"
    assert not re.search(
        r"://|--(?:extra-)?index|--find-links|--trusted|/(?:root|work|home|tmp)/", (ROOT / lock).read_text()
    )


@pytest.mark.parametrize(("lock", "texts"), LOCKS.items())
def test_every_declared_requirement_is_met_by_a_locked_entry(lock: str, texts: list[str]) -> None:
    pins = _pins(lock)
    declared = _declared(texts)
    assert declared
    unmet = [
        str(requirement)
        for requirement in declared
        if (pin := pins.get(canonicalize_name(requirement.name))) is None or pin.version not in requirement.specifier
    ]
    assert not unmet, f"run `make lock`: {lock} does not meet {unmet}"


@pytest.mark.parametrize(("lock", "texts"), LOCKS.items())
def test_a_lock_holds_what_the_declared_requirements_lead_to_and_nothing_else(lock: str, texts: list[str]) -> None:
    pins = {name: pin for name, pin in _pins(lock).items() if pin.installed_here}
    reached = _reached(_declared(texts))
    assert set(pins) == set(reached), "run `make lock`"
    for name, requirements in reached.items():
        for requirement in requirements:
            assert requirement.specifier.contains(pins[name].version, prereleases=True), f"{name}: {requirement}"


def test_what_is_installed_is_what_is_locked() -> None:
    pins = {name: pin for name, pin in _pins("requirements-dev.lock").items() if pin.installed_here}
    installed = {name: Version(metadata.version(name)) for name in pins}
    other = {
        str(name): f"{installed[name]}, locked {pin.version}"
        for name, pin in pins.items()
        if installed[name] != pin.version
    }
    assert not other, "run `make setup`"


def test_what_serves_is_locked_alike_for_serving_and_for_testing() -> None:
    tested = _pins("requirements-dev.lock")
    for name, pin in [*_pins("requirements.lock").items(), *_pins("requirements-spark.lock").items()]:
        assert pin.version == tested[name].version, name
        assert pin.hashes == tested[name].hashes, name


@pytest.mark.parametrize(("lock", "is_pipeline"), [("requirements.lock", False), ("requirements-spark.lock", True)])
def test_nothing_is_imported_that_only_tests_have(lock: str, is_pipeline: bool) -> None:  # noqa: FBT001 - a parameter
    locked = _pins(lock)
    owners = metadata.packages_distributions()
    pipeline = ROOT / "app" / "pipeline"
    imported = {
        module.partition(".")[0]
        for folder in ("app", "migrations")
        for path in (ROOT / folder).rglob("*.py")
        if path.is_relative_to(pipeline) == is_pipeline
        for node in ast.walk(ast.parse(path.read_text()))
        for module in _modules(node)
    }
    foreign = imported - sys.stdlib_module_names - {"app", "migrations"}
    assert ("pyspark" if is_pipeline else "fastapi") in foreign
    strange = {
        module for module in foreign if not {canonicalize_name(name) for name in owners.get(module, ())} & locked.keys()
    }
    assert not strange


def test_nothing_tells_to_install_by_a_name_that_no_index_has() -> None:
    pages = [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "app").rglob("*.py"),
        *(ROOT / "examples").rglob("*.md"),
    ]
    by_name = re.compile(r"(?:pip|uv|pipx) (?:install|add)[^\n`]*?\s['\"]?klamm\b(?!-client)")
    assert by_name.search("pip install 'klamm[otel]'")
    told = [f"{page.relative_to(ROOT)}: {found[0]}" for page in pages for found in by_name.finditer(page.read_text())]
    assert not told


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []


def test_setup_installs_nothing_without_a_hash() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (shared,) = re.findall(r"^INSTALL := (.*)$", makefile, re.MULTILINE)
    assert "--require-hashes" in shared
    assert "--no-deps" in shared, "pip would look beyond the lock for what it wants with an extra"
    assert "--only-binary :all:" in shared
    installs = [line for line in makefile.splitlines() if line.startswith("\t") and "/pip " in line]
    assert len(installs) == 6
    sources = [line for line in installs if "--no-binary" in line]
    assert [line.partition("--no-binary ")[2].split()[0] for line in sources] == ["pyspark"], "wheels for all others"
    assert all("--no-build-isolation" in line for line in sources), "what builds it is locked, too"
    bare = [
        line
        for line in installs
        if "$(INSTALL)" not in line and not {"--no-index", "--no-deps", "--no-build-isolation"} <= set(line.split())
    ]
    assert not bare


def _named_tests() -> list[tuple[str, str]]:
    return re.findall(r"`([\w/]+\.py)::(\w+)`", SECURITY)


def test_every_test_that_the_threat_model_names_exists() -> None:
    named = _named_tests()
    assert named
    missing = []
    for file, test in named:
        path = ROOT / "tests" / file
        if not path.exists() or not re.search(rf"^\s*(?:async )?def {test}\(", path.read_text(), re.MULTILINE):
            missing.append(f"{file}::{test}")
    assert not missing


def test_every_threat_names_a_test_that_proves_how_it_is_stopped() -> None:
    threats = [line for line in SECURITY.splitlines() if line.startswith("| ")]
    assert len(threats) > 20
    unproved = [line for line in threats if not line.startswith("| who ") and not re.search(r"`[\w/]+\.py::\w+`", line)]
    assert not unproved


def test_the_security_page_is_short_and_invents_no_address() -> None:
    assert len(SECURITY.splitlines()) <= 120
    assert not re.search(r"[\w.+-]+@[\w-]+\.\w+|://", SECURITY)
