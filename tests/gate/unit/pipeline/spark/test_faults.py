"""One line for every fault, without Java's stack and without secrets."""

import pytest
from py4j.protocol import Py4JError

from app.pipeline.spark.errors import PipelineError

_STACK = "\n\tat org.apache.spark.A.b(A.scala:1)\n\tat py4j.Gateway.invoke(Gateway.java:282)\n"


def test_of_spark_the_first_cause_that_means_something(subtests: pytest.Subtests) -> None:
    from app.pipeline.spark.faults import explain

    for said, line in [
        (
            (
                f"An error occurred while calling o54.load.\n: org.postgresql.util.PSQLException: FATAL: password "
                f'authentication failed for user "klamm"{_STACK}'
            ),
            (
                'PostgreSQL: FATAL: password authentication failed for user "klamm"; check the user and '
                "KLAMM_PIPELINE_JDBC_PASSWORD (or its _FILE)"
            ),
        ),
        (
            (
                "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent: Lost "
                f"in stage 1.0 (TID 4) (host executor driver): java.io.IOException: No space left on device{_STACK}"
            ),
            "No space left on device: of --home, or of `",
        ),
        (
            (
                f"An error occurred while calling o1.x.\n: org.apache.spark.SparkException: Job aborted.{_STACK}Caused "
                f"by: java.lang.OutOfMemoryError: Java heap space{_STACK}"
            ),
            "OutOfMemoryError: Java heap space; give --driver-memory more",
        ),
        (
            (
                "Job aborted due to stage failure: Task 0 ... (TID 1) (h executor driver): org.apache.spark.api.python."
                'PythonException: Traceback (most recent call last):\n  File "worker.py", line 1, in f\nKeyError: 1\n\n'
                f'During it:\n\nTraceback (most recent call last):\n  File "x"\nValueError: odd name{_STACK}'
            ),
            "ValueError: odd name",
        ),
        (
            "[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03\n",
            "[PATH_NOT_FOUND] Path does not exist: file:/x.",
        ),
        (
            (
                "An error occurred while calling o62.collect.\n: org.apache.spark.SparkException: Job aborted due to"
                ' stage failure: Task 0 ... (h executor 1): java.io.IOException: Cannot run program "python3.99": error'
                f"=2, No such file{_STACK}Caused by: java.io.IOException: error=2, No such file{_STACK}"
            ),
            "IOException: error=2, No such file; executors must have Python 3.",
        ),
        (
            "ModuleNotFoundError: No module named 'pyarrow'",
            "ModuleNotFoundError: No module named 'pyarrow'; the executors' ",
        ),
        ("", "no reason given"),
    ]:
        with subtests.test(said=said, line=line):
            text, status = explain(Py4JError(said), {})
            assert text.startswith(line)
            assert "\n" not in text
            assert "at org.apache" not in text
            assert status == 3


def _postgres(text: str) -> str:
    return f"An error occurred while calling o54.load.\n: org.postgresql.util.PSQLException: {text}{_STACK}"


def test_what_does_not_exist_is_told_by_its_kind_and_the_database_only_of_what_postgresql_says(
    subtests: pytest.Subtests,
) -> None:
    from app.pipeline.spark.faults import explain

    for said, way_out in [
        (_postgres('FATAL: database "klam" does not exist'), "check the database that the URL names"),
        (_postgres('FATAL: role "spark" does not exist'), "check the user (--jdbc-user)"),
        (_postgres('ERROR: relation "acl_head_v1" does not exist'), "run `klamm migrate` on that database"),
        (_postgres("ERROR: could not extend file: No space left on device"), "the disk of PostgreSQL is full"),
        (
            "[PATH_NOT_FOUND] Path does not exist: file:/home/snapshots/offset=7/acls. SQLSTATE: 42K03",
            "a file of --home",
        ),
        (
            f"Job aborted.\nCaused by: java.io.FileNotFoundException: File file:/x does not exist{_STACK}",
            "a file of --home",
        ),
        (
            f"x\nCaused by: a.b.NoSuchBucketException: The specified bucket does not exist{_STACK}",
            "the bucket in --home",
        ),
        ("[TABLE_OR_VIEW_NOT_FOUND] The table or view `x` does not exist", None),
        (f"Job aborted.\nCaused by: java.net.ConnectException: Connection refused{_STACK}", None),
    ]:
        with subtests.test(said=said, way_out=way_out):
            text, _ = explain(Py4JError(said), {})
            for each in (
                "database that the URL",
                "--jdbc-user",
                "klamm migrate",
                "is PostgreSQL running",
                "disk of PostgreSQL",
            ):
                assert (each in text) == (way_out is not None and each in way_out), text
            assert way_out is None or way_out in text


def test_a_job_speaks_for_itself_also_from_a_worker() -> None:
    from pyspark.errors import PySparkException

    from app.pipeline.spark.faults import explain

    assert explain(PipelineError("line 3 is bad"), {}) == ("line 3 is bad", 2)
    fault = PySparkException(
        f"Job aborted: Traceback (most recent call last):\napp.pipeline.errors.PipelineError: line 3 is bad\n{_STACK}"
    )
    assert explain(fault, {}) == ("line 3 is bad", 2)


def test_other_faults_are_named() -> None:
    from pyspark.errors import AnalysisException

    from app.pipeline.spark.faults import explain

    assert explain(AnalysisException("[X] no such table"), {}) == ("[X] no such table", 3)
    assert explain(FileNotFoundError(2, "No such file or directory", "/x"), {}) == (
        "`/x`: No such file or directory",
        3,
    )
    full = OSError(28, "No space left on device", "/home/.lock")
    assert explain(full, {})[0].startswith("`/home/.lock`: No space left on device; make room there and run it again")
    assert explain(ZeroDivisionError("division by zero\nmore"), {}) == ("ZeroDivisionError: division by zero", 3)


def test_secrets_are_made_unreadable() -> None:
    from app.pipeline.spark.faults import explain, masked

    environ = {"KLAMM_PIPELINE_JDBC_PASSWORD": "geheim"}
    text, _ = explain(PipelineError("with geheim and jdbc:postgresql://u:other@h/d?password=more&x=1;token=t"), environ)
    assert text == "with *** and jdbc:postgresql://u:***@h/d?password=***&x=1;token=***"
    assert masked("of no file", {"KLAMM_PIPELINE_JDBC_PASSWORD_FILE": "/none"}) == "of no file"
