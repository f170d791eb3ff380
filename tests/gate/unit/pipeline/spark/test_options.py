"""What jobs are told on the command line and by variables."""

import argparse

import pytest

from app.pipeline.spark.errors import PipelineError

SUBMITTED = {"PYSPARK_GATEWAY_PORT": "1"}


def _arguments(*given: str) -> argparse.Namespace:
    from app.pipeline.spark.options import add_common_arguments

    parser = argparse.ArgumentParser()
    add_common_arguments(parser, None)
    return parser.parse_args(given, argparse.Namespace(job="export"))


def test_the_home_is_a_folder_or_a_url() -> None:
    from app.pipeline.spark.options import home_of

    environ = {"KLAMM_PIPELINE_HOME": "s3a://bucket/klamm"}
    assert home_of(_arguments(), {}) == ".klamm/pipeline"
    assert home_of(_arguments(), environ) == "s3a://bucket/klamm"
    assert home_of(_arguments("--home", "here"), environ) == "here"
    assert not home_of(_arguments("--home", "~/x"), {}).startswith("~")


def test_a_local_run_is_told_what_fits_one_machine() -> None:
    from app.pipeline.spark.options import session_options

    options = session_options(_arguments("--conf", "spark.sql.shuffle.partitions=7", "--conf", "spark.a=b=c"), {})
    assert options.app_name == "klamm export"
    assert options.master is None
    assert options.driver_memory == "2g"
    assert options.shuffle_partitions is not None
    assert options.settings == {"spark.sql.shuffle.partitions": "7", "spark.a": "b=c"}
    assert options.quiet
    assert session_options(_arguments("--master", "spark://h:7077"), {}).shuffle_partitions is None


def test_where_spark_submit_starts_spark_nothing_is_said_of_its_machine() -> None:
    from app.pipeline.spark.options import session_options

    options = session_options(_arguments(), SUBMITTED)
    assert (options.master, options.driver_memory, options.shuffle_partitions) == (None, None, None)


def test_what_can_not_be_is_refused(subtests: pytest.Subtests) -> None:
    from app.pipeline.spark.options import session_options

    for arguments, environ, said in [
        (("--master", "sc://h/;token=geheim"), {}, "Klamm's jobs do not run on Spark Connect"),
        ((), {"SPARK_REMOTE": "sc://h/;token=geheim"}, "Klamm's jobs do not run on Spark Connect"),
        (("--conf", "spark.master=spark://h:7077"), {}, "--conf spark.master: give --master instead"),
        (("--master", "local[2]"), SUBMITTED, "--master is set by spark-submit"),
        (("--driver-memory", "2 GB"), {}, "--driver-memory: expected a size such as 512m"),
        (("--conf", "geheim"), {}, "--conf: expected spark.NAME=VALUE"),
        (("--conf", "spark.hadoop.fs.s3a.secret.key=geheimer"), {}, "looks like a secret"),
    ]:
        with subtests.test(arguments=arguments, environ=environ, said=said):
            with pytest.raises(PipelineError) as refusal:
                session_options(_arguments(*arguments), environ)
            assert said in str(refusal.value)
            assert "geheimer" not in str(refusal.value)
            assert "token=geheim" not in str(refusal.value)


def test_a_variable_that_means_nothing_is_refused() -> None:
    from app.pipeline.spark.options import VARIABLES, refuse_unknown_variables

    refuse_unknown_variables({**dict.fromkeys(VARIABLES, ""), "KLAMM_PORT": "1"})
    with pytest.raises(
        PipelineError, match="KLAMM_PIPELINE_JDBC_URI: unknown variable; did you mean KLAMM_PIPELINE_JDBC_URL"
    ):
        refuse_unknown_variables({"KLAMM_PIPELINE_JDBC_URI": ""})
