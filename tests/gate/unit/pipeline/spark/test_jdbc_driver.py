"""Where PostgreSQL's driver comes from, and that no other jar is ever taken for it."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from app.pipeline.spark import jdbc_driver
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.jdbc_driver import COORDINATES, JAR, find_driver, keep_driver


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jar that counts as the right one."""
    path = tmp_path / "fetched" / f"org.postgresql_{JAR}"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "")
    monkeypatch.setattr(jdbc_driver, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_the_jar_that_is_named_comes_first(jar: Path, environ: dict[str, str], tmp_path: Path) -> None:
    keep_driver(jar.as_uri(), environ)
    environ["KLAMM_PIPELINE_JDBC_JAR"] = "s3a://jars/driver.jar"
    assert find_driver(str(jar), environ, jar).options({}) == {"spark.jars": str(jar)}
    assert find_driver(None, environ, jar).options({}) == {"spark.jars": "s3a://jars/driver.jar"}
    with pytest.raises(PipelineError, match=r"--jdbc-jar is `.*none.jar`, but there is no such file"):
        find_driver(str(tmp_path / "none.jar"), environ)
    (tmp_path / "odd.jar").write_text("no jar")
    environ["KLAMM_PIPELINE_JDBC_JAR"] = str(tmp_path / "odd.jar")
    with pytest.raises(PipelineError, match=r"KLAMM_PIPELINE_JDBC_JAR is `.*odd.jar`, but that is no jar"):
        find_driver(None, environ)


def test_the_packages_own_comes_next_and_must_be_the_right_one(jar: Path, environ: dict[str, str]) -> None:
    assert find_driver(None, environ, jar).options({}) == {"spark.jars": str(jar)}
    jar.write_bytes(jar.read_bytes() + b"x")
    with pytest.raises(PipelineError, match="is not the driver that Klamm was built with; reinstall Klamm"):
        find_driver(None, environ, jar)


def test_what_spark_has_fetched_is_kept_for_the_next_start(jar: Path, environ: dict[str, str], tmp_path: Path) -> None:
    fetching = find_driver(None, environ, tmp_path / "none")
    told = [fetching.options(environ) for _ in range(2)]
    assert all(each["spark.jars.packages"] == COORDINATES for each in told)
    # Two that fetch at the same time must not read each other's half-written files.
    assert len({each["spark.jars.ivy"] for each in told}) == 2
    keep_driver(f"file:///somewhere/other.jar,{jar.as_uri()}", environ)
    kept = tmp_path / "cache" / "klamm" / "jdbc" / JAR
    assert find_driver(None, environ, tmp_path / "none").options({}) == {"spark.jars": str(kept)}
    assert kept.read_bytes() == jar.read_bytes()


def test_a_jar_with_another_checksum_is_never_used(jar: Path, environ: dict[str, str], tmp_path: Path) -> None:
    keep_driver(jar.as_uri(), environ)
    kept = tmp_path / "cache" / "klamm" / "jdbc" / JAR
    kept.write_bytes(b"something else")
    assert find_driver(None, environ, tmp_path / "none").jar is None
    assert not kept.exists()
    jar.write_bytes(b"something else")
    with pytest.raises(PipelineError, match="does not have that driver's checksum"):
        keep_driver(jar.as_uri(), environ)
    assert not kept.exists()


def test_where_there_can_be_no_cache_it_is_fetched_each_time(jar: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environ = {"XDG_CACHE_HOME": str(tmp_path / "file")}
    fetching = find_driver(None, environ, tmp_path / "none")
    assert fetching.jar is None
    assert "spark.jars.ivy" not in fetching.options(environ)
    keep_driver(jar.as_uri(), environ)


def test_the_pinned_checksum_is_one() -> None:
    assert len(bytes.fromhex(jdbc_driver.SHA256)) == 32
