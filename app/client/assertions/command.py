"""`klamm test`: assertions about access, against files of ACLs or a running service."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from app.client.assertions.files import CONFIGS, Test, TestFile, read_tests
from app.client.assertions.output import MAX_WITNESSES, Outcome, Report, print_report, write_json_report, write_junit
from app.client.file_problems import problems_in
from app.client.http.access import AccessFlags, access_flags, access_of, add_access_arguments
from app.client.http.service import Service
from app.client.plan.command import read_state
from app.client.plan.wanted import read_wanted
from app.client.words import counted
from app.core.access.assertions import AssertedAcls, Assertion, TooMuchError, Witness
from app.core.kafka.configs import SUPER_USERS, AuthorizerConfig, parse_configs
from app.core.kafka.errors import InvalidRequestException
from app.core.spelling import did_you_mean
from app.formats.command_errors import UsageError
from app.formats.file_flags import add_file_flags, file_flags
from app.formats.registry import FORMAT_NAMES

DESCRIPTION = (
    "Checks assertions about access, such as `nobody but User:pii may READ topic:pii.*`, for every principal, client "
    "address and name that they cover. For an assertion that fails, shows a request that is decided otherwise. Works "
    "offline on files of ACLs, or on the ACLs of a running service. Changes nothing."
)
_EPILOG = (
    "Example:\n  klamm test access.yaml --acls acls/ --junit report.xml\n\n"
    "Exit codes: 0 all tests pass; 1 some fail; 2 wrong usage, or a file can't be read; 3 the service refused or "
    "failed; 130 Ctrl-C; 141 the reader closed the pipe."
)
_SUPER_USERS_UNKNOWN = (
    f"no super users are given; set them in the file (configs) or with --config {SUPER_USERS}=User:admin"
)
_MAX_STRANGERS = 5
_CONFIG_UNKNOWN = (
    "the caller may not read the service's properties, so those of the files are used, or else no super users and "
    "allow.everyone.if.no.acl.found=false"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s FILE... (--acls ACLS... | --klamm URL --as NAME) [OPTIONS]"
    parser.epilog = _EPILOG
    parser.add_argument("files", metavar="FILE", nargs="+", help="assertions, in YAML")
    parser.add_argument(
        "--acls",
        metavar="ACLS",
        nargs="+",
        action="extend",
        help="the ACLs, in any format that import reads: files, folders (all files in them), or - for standard input",
    )
    add_file_flags(parser, "the ACLs'", FORMAT_NAMES)
    parser.add_argument(
        "--config",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help=f"with --acls: {' or '.join(CONFIGS)}, instead of what the files say; may be repeated",
    )
    parser.add_argument(
        "--output", choices=("text", "json", "junit"), default="text", help="how to print (%(default)s)"
    )
    parser.add_argument("--junit", metavar="REPORT", help="also write JUnit's XML to this file")
    parser.add_argument("--all", action="store_true", help="also show the tests that pass")
    add_access_arguments(parser, without="none: --acls")


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Returns 0 if all hold, otherwise 1."""
    given = _configs_given(arguments.config)
    calls = access_flags(arguments) != AccessFlags()
    if calls is (arguments.acls is not None):
        raise UsageError("give the ACLs as --acls FILE, or name a service with --klamm URL and --as PRINCIPAL")
    offline = ["--config"] if given else file_flags(arguments).flags
    if calls and offline:
        raise UsageError(f"{offline[0]} only works with --acls; leave it out to ask a service")
    with problems_in(arguments.output, out):
        files = _read_all(arguments.files)
        report = _of_service(arguments, files) if calls else _of_files(arguments, files, given)
    if arguments.junit is not None:
        _save(arguments.junit, report)
    if arguments.output == "json":
        write_json_report(report, out)
    elif arguments.output == "junit":
        write_junit(report, out)
    else:
        print_report(report, out, shows_all=arguments.all)
    return 1 if report.failed else 0


def _read_all(paths: Sequence[str]) -> list[TestFile]:
    repeated = next((each for at, each in enumerate(paths) if each in paths[:at]), None)
    if repeated is not None:
        raise UsageError(f"`{repeated}` is given twice; give each file once")
    return [read_tests(each) for each in paths]


def _of_files(arguments: argparse.Namespace, files: Sequence[TestFile], given: Mapping[str, str]) -> Report:
    wanted = read_wanted(arguments.acls, file_flags(arguments))
    wanted.print_sources("klamm test", sys.stderr)
    asserted = AssertedAcls(wanted.acls, _assertions(files))
    outcomes = _outcomes(asserted, ((each, _parsed({**each.configs, **given})) for each in files))
    unnamed = not any(SUPER_USERS in (*each.configs, *given) for each in files)
    named = arguments.acls[0] if len(arguments.acls) == 1 else f"{len(arguments.acls)} files and folders"
    about = f"{counted(len(wanted.acls))} of {named}"
    notes = [_SUPER_USERS_UNKNOWN] if unnamed else []
    return Report(outcomes, about, [*wanted.file_set.notes(), *notes, *_strangers(asserted, files)])


def _of_service(arguments: argparse.Namespace, files: Sequence[TestFile]) -> Report:
    with Service(access_of(arguments)) as service:
        state = read_state(service)
    notes = [_CONFIG_UNKNOWN] if state.config is None else []
    notes += [
        f"the service's properties differ from `configs` of {each.path}; those of the service are used"
        for each in files
        if state.config is not None and not _is_part(_parsed(each.configs), state.config, each.configs)
    ]
    configs = (state.config or _parsed(each.configs) for each in files)
    asserted = AssertedAcls(state.acls, _assertions(files))
    outcomes = _outcomes(asserted, zip(files, configs, strict=True))
    about = f"{counted(len(state.acls))} of {service.url} as of {state.token}"
    return Report(outcomes, about, [*notes, *_strangers(asserted, files)])


def _assertions(files: Iterable[TestFile]) -> Iterator[Assertion]:
    return (assertion for file in files for test in file.tests for assertion in test.assertions)


def _is_part(said: AuthorizerConfig, there: AuthorizerConfig, names: Iterable[str]) -> bool:
    fields = [each.replace(".", "_") for each in names]
    return all(getattr(said, each) == getattr(there, each) for each in fields)


def _outcomes(asserted: AssertedAcls, files: Iterable[tuple[TestFile, AuthorizerConfig]]) -> list[Outcome]:
    return [Outcome(test, _witnesses(asserted, test, config)) for file, config in files for test in file.tests]


def _strangers(asserted: AssertedAcls, files: Iterable[TestFile]) -> list[str]:
    """Notes of principals that are in no ACL: many assertions about a misspelt one would hold."""
    named = {
        principal: test
        for file in files
        for test in reversed(file.tests)
        for assertion in test.assertions
        for principal in assertion.principals
    }
    found = [(test, principal) for principal, test in sorted(named.items()) if not asserted.speak_of(principal)]
    notes = [f"no ACL mentions {principal} ({test.path}:{test.line})" for test, principal in found[:_MAX_STRANGERS]]
    more = len(found) - len(notes)
    return [*notes, *([f"no ACL mentions {more} more principals of the tests"] if more else [])]


def _witnesses(asserted: AssertedAcls, test: Test, config: AuthorizerConfig) -> list[Witness] | None:
    found: list[Witness] = []
    try:
        for each in test.assertions:
            found += asserted.witnesses(each, config, MAX_WITNESSES + 1 - len(found))
            if len(found) > MAX_WITNESSES:
                break
    except TooMuchError:
        return found or None
    return found


def _configs_given(texts: Sequence[str]) -> dict[str, str]:
    configs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in CONFIGS or not equals:
            raise UsageError(
                f"--config: write NAME=VALUE, with {' or '.join(CONFIGS)} as name{did_you_mean(name, CONFIGS)}"
            )
        if name in configs:
            raise UsageError(f"--config: `{name}` is given twice; keep one of them")
        configs[name] = value
    _parsed(configs)
    return configs


def _parsed(configs: Mapping[str, str]) -> AuthorizerConfig:
    try:
        return parse_configs(dict(configs))
    except InvalidRequestException as refusal:
        raise UsageError(f"--config: {refusal.message}") from None


def _save(path: str, report: Report) -> None:
    try:
        with Path(path).open("w", encoding="utf-8", newline="\n") as file:
            write_junit(report, file)
    except OSError as error:
        raise UsageError(f"--junit: `{path}` can't be written ({error.strerror})") from None
