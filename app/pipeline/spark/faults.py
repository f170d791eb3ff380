"""What went wrong, in one line: the first meaningful cause in Spark's errors, without Java's stack trace."""

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from app.formats.arguments import one_line
from app.formats.command_errors import UsageError
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.jdbc import password_of

SPARK_FAILED = 3

_CLASS = re.compile(r"^(?:Caused by: |: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error|Throwable): ")
_CAUSE = re.compile(r"^(?:Caused by: |: )?((?:[\w$]+\.)+[\w$]*(?:Exception|Error)): (.*\S)", re.MULTILINE)
_TASK = re.compile(r"^Job aborted due to stage failure: .*\(TID \d+\) \([^)]*\): ")
# How those of Spark's messages begin that do not name the cause.
_EMPTY = re.compile(r"^(An error occurred while calling|Job aborted|Exception thrown in awaitResult|Py4J)")
_OURS = re.compile(r"^(?:[\w.]+\.)?PipelineError: (.*\S)", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last)"
_PYTHON = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception)(?:: .*)?)$", re.MULTILINE)
_POSTGRES = re.compile(r"org\.postgresql\.util\.PSQLException: (.*\S)")
_WRAPPERS = ("SparkException", "ExecutionException", "InvocationTargetException", "Py4JJavaError", "PythonException")
_CREDENTIALS = re.compile(r"(?i)(password=|token=|secret=)[^\s&;,]+|(?<=://)([^\s/@:]+):[^\s/@]+@")
# A shorter password would match in many words, so that masking it would reveal it.
_LEAST_SECRET = 3

_PYTHON_OF_EXECUTORS = (
    f"executors must have Python {sys.version_info.major}.{sys.version_info.minor}, as this driver has; "
    "name theirs with --conf spark.pyspark.python=PATH"
)
_PACKAGES_OF_EXECUTORS = "the executors' Python needs pyarrow and pandas (docs/pipeline.md, On a cluster)"

# By a pattern in what PostgreSQL says.
_HINTS_OF_POSTGRES = (
    ("password authentication failed", "check the user and KLAMM_PIPELINE_JDBC_PASSWORD (or its _FILE)"),
    ("no password was provided", "set KLAMM_PIPELINE_JDBC_PASSWORD or KLAMM_PIPELINE_JDBC_PASSWORD_FILE"),
    ("refused", "is PostgreSQL running there? check host and port of the URL"),
    ("permission denied for", "grant the group role klamm_spark to the user (docs/database.md)"),
    (r'database ".*" does not exist', "check the database that the URL names"),
    (r'role ".*" does not exist', "check the user (--jdbc-user)"),
    ("does not exist", "run `klamm migrate` on that database, or check that the URL names the service's database"),
    ("No space left on device", "the disk of PostgreSQL is full: make room there"),
    ("The server does not support SSL", "if the network is safe without TLS, add ?sslmode=disable to the URL"),
    ("SSL", "for a CA of your own add ?sslrootcert=FILE to the URL; docs/pipeline.md, Secrets and TLS"),
)

_MAKE_ROOM = "make room there and run it again: what was written before is kept"
_DAMAGED = "the file is damaged: restore it, or look for more damage with `klamm pipeline reconcile`"
_GONE = (
    "if that is a file of --home, it was removed, or another run replaced it in the meantime: run this again; if the "
    "error stays, restore the file, or run the job that wrote it"
)

_LOST = "executors were lost with rows that only they had; run it again: what was written before is kept"

# By a pattern anywhere in what Java printed.
_HINTS_OF_ALL = (
    ("PYTHON_VERSION_MISMATCH|Cannot run program", _PYTHON_OF_EXECUTORS),
    ("No module named '(pyarrow|pandas)'|PACKAGE_NOT_INSTALLED", _PACKAGES_OF_EXECUTORS),
    ("All masters are unresponsive", "is the cluster's master running there? check --master"),
    ("OutOfMemoryError|Java heap space", "give --driver-memory more"),
    ("No suitable driver|ClassNotFoundException: org.postgresql", "name PostgreSQL's JDBC driver with --jdbc-jar"),
    ("Read-only file system", "name a --home that can be written"),
    ("Permission denied", "name a --home that this user may write to, or change its permissions"),
    ("ChecksumException|not a Parquet file", _DAMAGED),
    ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|Checkpoint block", _LOST),
    ("unresolved dependency", "if Maven Central can't be reached, name PostgreSQL's JDBC driver with --jdbc-jar"),
    ("NoSuchBucket", "check the bucket in --home, or create it"),
    (r"PATH_NOT_FOUND|FileNotFoundException|\bFile \S+ does not exist", _GONE),
)

_FULL = re.compile("No space left on device|Disk quota exceeded")


def explain(fault: BaseException, environ: Mapping[str, str]) -> tuple[str, int]:
    """The fault as one line without secrets, and the exit code."""
    status = SPARK_FAILED
    if isinstance(fault, UsageError):
        text, status = str(fault), fault.exit_code
    elif isinstance(fault, PySparkException | Py4JError):
        said = text_of(fault)
        # A PipelineError that a worker raised arrives inside an error of Spark's.
        if ours := _OURS.search(said):
            text, status = ours[1], PipelineError.exit_code
        else:
            text = _line_of(said, environ)
    elif isinstance(fault, OSError) and fault.strerror:
        text = f"`{fault.filename}`: {fault.strerror}" if fault.filename else fault.strerror
        text = f"{text}; {_MAKE_ROOM}" if _FULL.search(fault.strerror) else text
    else:
        text = f"{type(fault).__name__}: {_first_line(str(fault))}"
    return one_line(masked(text, environ)), status


def masked(text: str, environ: Mapping[str, str]) -> str:
    try:
        password = password_of(environ) or ""
    except PipelineError:
        password = ""
    if len(password) >= _LEAST_SECRET:
        text = text.replace(password, "***")
    return _CREDENTIALS.sub(lambda match: f"{match[1] or f'{match[2]}:'}***{'' if match[1] else '@'}", text)


def text_of(fault: PySparkException | Py4JError) -> str:
    """What it says, with the JVM's stack trace."""
    try:
        message = str(fault)
    except (AssertionError, Py4JError):  # the JVM is gone, or was never there
        message = type(fault).__name__
    return f"{message}\n{getattr(fault, '_stackTrace', '') or ''}"


def _line_of(text: str, environ: Mapping[str, str]) -> str:
    if postgres := _POSTGRES.search(text):
        message = f"PostgreSQL: {postgres[1]}"
        hint = _hint(_HINTS_OF_POSTGRES, message) or _hint(_HINTS_OF_ALL, text)
    elif full := _FULL.search(text):
        # What Java says of the stream that it was closing does not name the cause.
        scratch = environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()
        message, hint = f"{full[0]}: of --home, or of `{scratch}`, where Spark keeps its own files", _MAKE_ROOM
    else:
        message, hint = _cause(text), _hint(_HINTS_OF_ALL, text)
    return f"{message.rstrip('.')}; {hint}" if hint else message


def _hint(hints: Sequence[tuple[str, str]], text: str) -> str | None:
    return next((hint for sign, hint in hints if re.search(sign, text)), None)


def _cause(text: str) -> str:
    python = _PYTHON.findall(text.partition(_TRACEBACK)[2].partition("\n\tat ")[0])
    if python:
        # The innermost is the last.
        return str(python[-1])
    first = _first_line(text)
    if not _EMPTY.match(first):
        return first
    for kind, message in _CAUSE.findall(text):
        if not kind.endswith(_WRAPPERS):
            return f"{kind.rpartition('.')[2]}: {message}"
    return first


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    return _CLASS.sub("", _TASK.sub("", line))
