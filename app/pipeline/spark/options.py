"""The options and variables of all jobs; faults in them are refused in one line, before Spark starts."""

import argparse
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from app.core import times
from app.core.spelling import did_you_mean
from app.formats.arguments import CommandParser
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.jdbc import PASSWORD_FILE_VARIABLE, PASSWORD_VARIABLE, URL_VARIABLE, USER_VARIABLE, JdbcSource
from app.pipeline.spark.jdbc_driver import JAR_VARIABLE
from app.pipeline.spark.session import SessionOptions, is_of_this_machine, is_submitted

HOME_VARIABLE = "KLAMM_PIPELINE_HOME"
VARIABLES = (HOME_VARIABLE, URL_VARIABLE, USER_VARIABLE, PASSWORD_VARIABLE, PASSWORD_FILE_VARIABLE, JAR_VARIABLE)
DEFAULT_HOME = ".klamm/pipeline"
DEFAULT_DRIVER_MEMORY = "2g"

_PREFIX = "KLAMM_PIPELINE_"
_LEAST_PARTITIONS = 8
_MASTER = re.compile(
    r"local(\[(\*|[1-9][0-9]{0,3})(,[1-9][0-9]*)?\])?|local-cluster\[[0-9, ]+\]|(spark|k8s)://\S+|yarn"
)
_SECRET_SETTING = re.compile(r"(?i)secret|password|token|access[._]?key|credential")
_OPTIONS_OF_OURS = {"spark.master": "--master", "spark.remote": "--master", "spark.driver.memory": "--driver-memory"}
_FIRST_YEAR = 1970
_COMMANDS_OF_THE_SERVICE = ("who", "what")


class JobParser(CommandParser):
    """Reports a PipelineError of an argument's type with the argument's name."""

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:  # noqa: ANN401 - as argparse has it
        try:
            if action.nargs != argparse.PARSER:
                _refuse_unusable(arg_string, is_path=action.type is Path)
            return super()._get_value(action, arg_string)
        except PipelineError as fault:
            raise argparse.ArgumentError(action, str(fault)) from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 - as argparse has it
        if action.nargs == argparse.PARSER and value in _COMMANDS_OF_THE_SERVICE:
            text = f"`{value}` is not a job; run `klamm {value}`, which also answers as of a past time (--at)"
            raise argparse.ArgumentError(action, text)
        super()._check_value(action, value)


def _refuse_unusable(text: str, *, is_path: bool) -> None:
    if not text:
        raise PipelineError("the value is empty; give one, or leave the option out")
    # Python keeps bytes of other encodings as halves of surrogate pairs, which Spark does not take.
    if not is_path and any("\ud800" <= each <= "\udfff" for each in text):
        raise PipelineError(f"`{text}` is not UTF-8; write it in UTF-8")


def parse_time(text: str) -> datetime:
    """In UTC. Raises PipelineError, also for a time without an offset, which is ambiguous."""
    try:
        time = times.parse_time(text)
    except times.NotATimeError as fault:
        raise PipelineError(f"`{text}` is {fault}") from None
    with suppress(OverflowError):
        time = time.astimezone(UTC)
        if time.year >= _FIRST_YEAR:
            return time
    raise PipelineError(f"`{text}` is not in the years 1970 to 9999 in UTC")


class Service(Protocol):
    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def source(self, arguments: argparse.Namespace) -> JdbcSource: ...


def add_common_arguments(parser: argparse.ArgumentParser, service: Service | None) -> None:
    where = parser.add_argument_group("where")
    where.add_argument(
        "--home",
        metavar="FOLDER",
        help=f"folder, or URL of an object store, where jobs keep their tables ({HOME_VARIABLE}, {DEFAULT_HOME})",
    )
    database = parser.add_argument_group("database")
    if service is not None:
        service.add_arguments(database)  # type: ignore[arg-type]  # a group declares arguments as a parser does
    database.add_argument(
        "--jdbc-url", metavar="URL", help=f"jdbc:postgresql://host:port/database, without secrets ({URL_VARIABLE})"
    )
    database.add_argument(
        "--jdbc-user",
        metavar="NAME",
        help=f"database user ({USER_VARIABLE}); the password comes from {PASSWORD_VARIABLE} or the file that "
        f"{PASSWORD_FILE_VARIABLE} names",
    )
    database.add_argument(
        "--jdbc-jar",
        metavar="FILE",
        help=f"PostgreSQL's JDBC driver ({JAR_VARIABLE}; default: the cached one, else it is fetched once)",
    )
    spark = parser.add_argument_group("Spark")
    spark.add_argument("--master", metavar="URL", help="where Spark runs: local[4], spark://..., k8s://... (local[*])")
    spark.add_argument(
        "--driver-memory",
        metavar="SIZE",
        help=f"heap of Spark's driver, which in a local run does all the work: 512m, 4g ({DEFAULT_DRIVER_MEMORY})",
    )
    spark.add_argument(
        "--conf", metavar="NAME=VALUE", action="append", default=[], help="a Spark setting; may be repeated"
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--metrics-file",
        metavar="FILE",
        type=Path,
        help="write the run's metrics to this file for Prometheus' node_exporter (textfile collector; name it *.prom)",
    )
    output.add_argument("--quiet", action="store_true", help="no progress on standard error, only errors")
    output.add_argument("--debug", action="store_true", help="show Spark's log, and errors in full")


def home_of(arguments: argparse.Namespace, environ: Mapping[str, str]) -> str:
    named: str = arguments.home or environ.get(HOME_VARIABLE) or DEFAULT_HOME
    return named if "://" in named else os.path.expanduser(named)  # noqa: PTH111 - `x//y` and `./x` stay as they are


def session_options(arguments: argparse.Namespace, environ: Mapping[str, str]) -> SessionOptions:
    _refuse_connect(arguments, environ)
    for flag, given in (("--master", arguments.master), ("--driver-memory", arguments.driver_memory)):
        if given and is_submitted(environ):
            raise PipelineError(f"{flag} is set by spark-submit here; leave it out")
    if arguments.master and not _MASTER.fullmatch(arguments.master):
        raise PipelineError(
            f"--master: expected local, local[4], spark://host:port, k8s://host:port or yarn, not `{arguments.master}`"
        )
    if arguments.driver_memory and not re.fullmatch(r"[1-9]\d*[mg]", arguments.driver_memory, re.IGNORECASE):
        raise PipelineError(f"--driver-memory: expected a size such as 512m or 4g, not `{arguments.driver_memory}`")
    options = SessionOptions(
        app_name=f"klamm {arguments.job}",
        master=arguments.master,
        settings=_settings(arguments.conf),
        quiet=not arguments.debug,
    )
    if is_submitted(environ):
        return options
    local = is_of_this_machine(arguments.master)
    return replace(
        options,
        driver_memory=arguments.driver_memory or DEFAULT_DRIVER_MEMORY,
        # Spark's own 200 are for a cluster: a local run would write as many small files and start as many tasks.
        shuffle_partitions=max(_LEAST_PARTITIONS, 4 * (os.cpu_count() or 1)) if local else None,
    )


def _refuse_connect(arguments: argparse.Namespace, environ: Mapping[str, str]) -> None:
    if environ.get("SPARK_REMOTE") or (arguments.master or "").startswith("sc://"):
        raise PipelineError(
            "Klamm's jobs do not run on Spark Connect (SPARK_REMOTE, --master sc://); name the cluster itself with "
            "--master (spark://host:port, k8s://..., yarn), or start them with spark-submit"
        )


def refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    for name in sorted(environ):
        if name.startswith(_PREFIX) and name not in VARIABLES:
            raise PipelineError(f"{name}: unknown variable{did_you_mean(name, VARIABLES)}")


def _settings(given: list[str]) -> dict[str, str]:
    settings = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not re.match(r"spark\.\w", name):
            raise PipelineError(f"--conf: expected spark.NAME=VALUE; the name given is `{name}`")
        if name in _OPTIONS_OF_OURS:
            raise PipelineError(f"--conf {name}: give {_OPTIONS_OF_OURS[name]} instead, which is checked")
        if _SECRET_SETTING.search(name):
            raise PipelineError(
                f"--conf {name} looks like a secret, which others could see in the process list; put it into "
                "spark-defaults.conf (SPARK_CONF_DIR), or use the environment variables of the object store's client"
            )
        settings[name] = value
    return settings
