"""The images: pinned, no secrets, a user without rights; and what the service's holds is what serving needs."""

import fnmatch
import re
import runpy
import sys
import tomllib
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from app import __version__
from app.pipeline.spark import jdbc_driver
from app.rest.openapi import build_openapi
from tests.deploy.containerfile import TEXT, copies, stages
from tests.deploy.manifests import DEPLOY, ROOT

STAGES = stages()
RESULTS = ("service", "pipeline")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PART = DEPLOY / "container" / "part_of_lock.py"


def test_there_are_both_targets() -> None:
    assert set(RESULTS) <= STAGES.keys()


def test_bases_are_pinned_to_the_patch_and_python_by_digest() -> None:
    foreign = {stage.image for stage in STAGES.values()} - STAGES.keys()
    assert len(foreign) == 3
    for image in foreign:
        assert re.search(r":\d+\.\d+\.\d+", image), image
    (python,) = [image for image in foreign if image.startswith("python:")]
    assert re.search(r"@sha256:[0-9a-f]{64}$", python)
    version = re.search(r":(\d+\.\d+\.\d+)-slim", python)
    assert version is not None, "the slim one has no compiler"
    assert version[1] in SpecifierSet(PROJECT["requires-python"])
    major_minor = version[1].rpartition(".")[0]
    assert f"/lib/python{major_minor}/" in " ".join(STAGES["pipeline"].of("ENV"))


@pytest.mark.parametrize("name", STAGES)
def test_what_is_copied_is_there_and_may_be_seen_by_the_build(name: str) -> None:
    ignored = (ROOT / ".containerignore").read_text().splitlines()
    seen = [line[1:] for line in ignored if line.startswith("!")]
    for origin, sources, _ in copies(STAGES[name]):
        for source in sources:
            if origin is None:
                assert (ROOT / source).exists(), source
                assert any(source == each or source.startswith(f"{each}/") for each in seen), source
            else:
                assert origin in STAGES, origin


def test_the_build_sees_nothing_that_could_be_a_secret() -> None:
    ignored = (ROOT / ".containerignore").read_text()
    assert ignored == (ROOT / ".dockerignore").read_text()
    lines = [line for line in ignored.splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    seen = [line[1:] for line in lines if line.startswith("!")]
    assert all((ROOT / each).exists() for each in seen)
    for secret in (".git/config", "klamm.toml", "klamm.tokens", ".klamm/password", "deploy/compose/secrets/serve.url"):
        assert not [each for each in seen if fnmatch.fnmatch(secret, each) or secret.startswith(f"{each}/")], secret
    assert not re.search(r"^(ENV|ARG) .*(PASSWORD|TOKEN|SECRET|_KEY)", TEXT, re.MULTILINE)
    assert not re.search(r"^ADD ", TEXT, re.MULTILINE)


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_runs_as_nobody_in_particular_and_says_what_it_is(name: str) -> None:
    stage = STAGES[name]
    assert stage.of("USER") == ["10001:10001"], "a number, which runAsNonRoot can be sure of"
    assert not stage.of("RUN"), "nothing is installed where it runs"
    labels = " ".join(stage.of("LABEL"))
    for label in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{label}=" in labels
    assert "uninstall" in " ".join(STAGES["user"].of("RUN")), "nor can anything be"
    assert stage.image == "user"


def test_python_s_own_library_is_compiled_and_cannot_install_a_pip() -> None:
    (script,) = STAGES["user"].of("RUN")
    version = re.search(r":(\d+\.\d+)\.\d+-slim", STAGES["python"].image)
    assert version is not None
    library = f"/usr/local/lib/python{version[1]}"
    steps = script.split(" && ")
    assert f"python -m compileall -q {library}" in steps
    assert f"rm -r {library}/ensurepip" in steps


def test_the_version_is_the_code_s() -> None:
    assert re.search(r"^ARG VERSION=(\S+)$", TEXT, re.MULTILINE)[1] == __version__  # type: ignore[index]  # the test fails
    assert set(re.findall(r"--tag klamm(?:-pipeline)?:(\S+)", TEXT)) == {__version__}


def test_the_service_s_health_is_a_probe_that_it_answers() -> None:
    (check,) = STAGES["service"].of("HEALTHCHECK")
    (path,) = re.findall(r'CMD \["klamm-probe", "(\S+)"\]', check)
    assert path in build_openapi()["paths"]
    assert (["deploy/container/probe.py"], "/usr/local/bin/klamm-probe") in [
        (sources, destination) for _, sources, destination in copies(STAGES["service"])
    ]
    assert STAGES["service"].of("ENTRYPOINT") == ['["klamm"]']
    assert STAGES["service"].of("CMD") == ['["serve"]']


def test_nothing_is_installed_without_a_hash() -> None:
    installs = [
        command
        for stage in STAGES.values()
        for script in stage.of("RUN")
        for command in script.split("&&")
        if re.search(r"\bpip\b(?!.* uninstall).* (install|wheel)\b", command)
    ]
    assert len(installs) >= 6
    for command in installs:
        if "--require-hashes" in command:
            assert "--only-binary :all:" in command or "--no-binary pyspark --no-build-isolation" in command
            assert "--no-deps" in command, command
        else:
            assert {"--no-index", "--no-deps"} <= set(command.split()), command


def test_the_driver_is_the_one_that_klamm_knows() -> None:
    text = " ".join(rest for _, rest in STAGES["driver"].instructions)
    assert f"-Dartifact={jdbc_driver.COORDINATES} " in text
    assert jdbc_driver.SHA256 in text
    at = f"/opt/klamm/{jdbc_driver.JAR}"
    assert at in [destination for _, _, destination in copies(STAGES["pipeline"])]
    for path in (DEPLOY / "Containerfile", *(DEPLOY / "pipeline").glob("*job.yaml")):
        assert set(re.findall(r"/opt/klamm/[\w.-]+\.jar", path.read_text())) == {at}
    assert f"{jdbc_driver.JAR_VARIABLE}={at}" in " ".join(STAGES["pipeline"].of("ENV"))


def test_paths_that_the_pipeline_s_manifests_name_are_in_its_image() -> None:
    copied = {destination for _, _, destination in copies(STAGES["pipeline"])}
    for path in (DEPLOY / "pipeline").glob("*job.yaml"):
        named = set(re.findall(r"(?:local://)?(/opt/klamm/[\w.-]+)", path.read_text()))
        assert named <= copied


def _distributions(name: str) -> set[str]:
    """What a distribution needs, itself included, as the installed metadata say."""
    found: set[str] = set()
    waiting = [Requirement(name)]
    while waiting:
        requirement = waiting.pop()
        extras = requirement.extras or {""}
        if canonicalize_name(requirement.name) in found and extras == {""}:
            continue
        found.add(canonicalize_name(requirement.name))
        needed = [Requirement(text) for text in metadata.requires(requirement.name) or ()]
        waiting += [
            each
            for each in needed
            if not each.marker or any(each.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return found


def test_only_what_the_embedded_postgresql_alone_needs_is_left_out() -> None:
    (script,) = STAGES["service-packages"].of("RUN")
    (left_out,) = re.findall(r"--without ([\w -]+) >", script)
    needed = set().union(
        *(_distributions(text) for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["otel"]])
    )
    only = set().union(*(_distributions(text) for text in PROJECT["optional-dependencies"]["embedded"])) - needed
    assert set(left_out.split()) == only


def part(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The script's exit code, run here."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", [str(PART), *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(PART), run_name="__main__")
    assert isinstance(ended.value.code, int)
    return ended.value.code


def _names(text: str) -> list[str]:
    return re.findall(r"^([\w.-]+)==", text, re.MULTILINE)


def test_a_part_of_a_lock_keeps_whole_entries_with_their_hashes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert part(monkeypatch, "requirements.lock", "--without", "psutil", "fasteners") == 0
    without = capsys.readouterr().out
    assert _names(without) == [name for name in _names(lock) if name not in {"psutil", "fasteners"}]
    assert part(monkeypatch, "requirements.lock", "--only", "psutil") == 0
    only = capsys.readouterr().out
    assert _names(only) == ["psutil"]
    assert only in lock
    assert only.count("--hash=sha256:") > 1
    assert without.count("--hash") + only.count("--hash") < lock.count("--hash")


def test_a_part_that_the_lock_does_not_have_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert part(monkeypatch, "requirements.lock", "--without", "psutils") == 1
    assert capsys.readouterr() == ("", "part_of_lock: requirements.lock has no entry psutils\n")
