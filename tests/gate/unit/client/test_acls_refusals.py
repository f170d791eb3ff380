"""`klamm acls` refuses what kafka-acls refuses, in its words: held to what Kafka 4.3.1's AclCommand really said."""

import io

import pytest

from app.client.acls.command import main as run_acls
from app.client.acls.options import OPTIONS
from tests.kafka_acls_tool import FAILED, Said, ordered_words, refusals

# Kafka's tool has brokers, and shows its help as a refusal; these are told apart on purpose.
_ELSEWHERE = ("--help", "--version")
# Nobody listens there, so that a command which should have been refused fails in other words.
SERVICE = ("--klamm", "http://127.0.0.1:1", "--as", "User:admin", "--timeout", "0.1")
RECORDED = [said for said in refusals() if said.words and not set(said.words) & set(_ELSEWHERE)]
_NO_PATTERN_TYPE = f"{FAILED}Cannot parse argument '%s' of option resource-pattern-type\n"
_NO_PRINCIPAL = f"{FAILED}expected a string in format principalType:principalName but got bad\n"
ON_A_BROKER = [
    Said(["--list", "-=x"], 1, "", "= is not a recognized option"),
    Said(["--list", *(f"--resource-pattern-type={each}" for each in ("any", "zip"))], 1, _NO_PATTERN_TYPE % "zip", ""),
    Said(["--list", "--resource-pattern-type", "pre\ufb01xed"], 1, _NO_PATTERN_TYPE % "pre\ufb01xed", ""),
    Said(
        ["--add", "--allow-principal=User:a", "--operation=Any", "--deny-principal=bad", "--topic=t"],
        1,
        _NO_PRINCIPAL,
        "",
    ),
]
"""What it says before a real broker, beside what is recorded."""


def run(*words: str, answers: str = "") -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = run_acls([*words, *SERVICE], out, err, io.StringIO(answers))
    return code, out.getvalue(), err.getvalue()


def test_enough_was_recorded() -> None:
    assert len(RECORDED) >= 100


def test_a_refusal_is_kafka_s_own(subtests: pytest.Subtests) -> None:
    for said in RECORDED + ON_A_BROKER:
        with subtests.test(said=said):
            # An option that lacks its argument must stand last.
            out, err = io.StringIO(), io.StringIO()
            code = run_acls([*SERVICE, *said.words], out, err, io.StringIO())
            assert code == said.exit
            if said.out.startswith(FAILED):
                assert ordered_words(out.getvalue()) == ordered_words(said.out)
            else:
                assert ordered_words(err.getvalue().partition("\n")[0]) == ordered_words(said.refusal)
                assert out.getvalue() == ""


def test_text_for_files_goes_with_a_list_only() -> None:
    code, out, err = run("--remove", "--topic", "t", "--output", "TEXT")
    assert (code, out) == (1, "")
    assert err.startswith("--output text goes with --list; choose json, yaml or csv\n")


@pytest.mark.parametrize("flag", ["--bootstrap-server", "--bootstrap-controller"])
def test_a_broker_is_refused_with_the_way_to_klamm(flag: str) -> None:
    code, out, err = run("--list", flag, "localhost:9092")
    assert (code, out) == (1, "")
    assert "--klamm URL" in err.splitlines()[0]
    assert flag in err


def test_nothing_at_all_shows_the_help_and_fails() -> None:
    out, err = io.StringIO(), io.StringIO()
    assert run_acls([], out, err) == 1
    assert "--resource-pattern-type" in out.getvalue()


def test_help_names_every_option() -> None:
    out = io.StringIO()
    assert run_acls(["--help"], out, io.StringIO()) == 0
    shown = [name for name in OPTIONS if not name.startswith("bootstrap")]
    assert [name for name in shown if f"  --{name}" not in out.getvalue()] == []
    assert max(map(len, out.getvalue().splitlines())) <= 100


def test_the_version_is_klamm_s() -> None:
    out = io.StringIO()
    assert run_acls(["--version"], out, io.StringIO()) == 0
    assert out.getvalue().startswith("klamm ")


def test_words_that_belong_to_no_option_are_told() -> None:
    code, _, err = run("--list", "orders", "--topic", "a", "b\x1b[2J")
    assert code == 1
    assert "`orders` is not an option" in err
    assert "\x1b" not in err


def test_words_in_another_encoding_are_refused() -> None:
    code, out, err = run("--list", "--topic", "caf\udce9")
    assert (code, out) == (1, "")
    assert "UTF-8" in err


def test_an_unknown_form_of_output_is_told_with_those_there_are() -> None:
    code, out, err = run("--list", "--output", "xml")
    assert (code, out) == (1, "")
    assert "json, yaml, csv" in err


@pytest.mark.parametrize("words", [["--list"], ["--list", "--principal", "User:a", "--principal", "User:b"]])
def test_failures_are_told_on_standard_output_as_by_kafka(words: list[str]) -> None:
    code, out, err = run(*words)
    assert (code, err) == (1, "")
    assert out.startswith(f"{FAILED}can't reach Klamm at `http://127.0.0.1:1`")


def test_failures_are_kept_out_of_what_programs_read() -> None:
    code, out, err = run("--list", "--output", "json")
    assert (code, out) == (1, "")
    assert err.startswith(FAILED)


def test_the_service_is_named_once() -> None:
    code, out, _ = run("--list", "--klamm", "http://localhost:1")
    assert code == 1
    assert out == f"{FAILED}Found multiple arguments for option klamm, but you asked for only one\n"


def test_words_that_belong_to_no_option_come_after_a_refusal_not_before_it() -> None:
    code, _, err = run("--add", "stray", "--topic", "t")
    assert code == 1
    assert err.startswith("You must specify one of")


@pytest.mark.parametrize(("word", "question"), [("--lsit", "Did you mean --list? "), ("--xyz", ""), ("-l", "")])
def test_a_misspelt_option_is_asked_about_behind_kafkas_own_line(word: str, question: str) -> None:
    err = io.StringIO()
    assert run_acls([word], io.StringIO(), err) == 1
    kafkas, ours = err.getvalue().splitlines()
    assert kafkas == f"{word.lstrip('-')} is not a recognized option"
    assert ours == f"{question}klamm acls --help lists the options."


def test_a_word_that_is_no_operation_is_named_beside_kafka_s_own_refusal() -> None:
    code, out, err = run("--add", "--operation", "Raed", "--topic", "t", "--allow-principal", "User:a")
    assert (code, out) == (1, "")
    first, second, *_ = err.splitlines()
    assert first.startswith("ResourceType TOPIC only supports operations [ALL, READ,")
    assert second == "klamm acls: --operation: `Raed` is not an operation; did you mean Read?"


def test_an_operation_that_is_not_like_any_gets_the_list() -> None:
    _, _, err = run("--add", "--operation", "x\x1b" * 9_000, "--topic", "t", "--allow-principal", "User:a")
    assert "is not an operation; one of All, Read, Write, " in err
    assert "\x1b" not in err
    assert len(err) < 2_000


@pytest.mark.parametrize("action", ["--add", "--list", "--remove"])
def test_a_pattern_type_that_is_none_is_told_with_those_there_are(action: str) -> None:
    code, out, err = run(action, "--resource-pattern-type", "prefix", "--topic", "t")
    assert (code, out) == (1, f"{FAILED}Cannot parse argument 'prefix' of option resource-pattern-type\n")
    assert err == (
        "klamm acls: --resource-pattern-type must be LITERAL or PREFIXED, or with --list and --remove also ANY or "
        "MATCH; did you mean PREFIXED?\n"
    )


def test_what_is_probably_meant_otherwise_is_told_once_and_done_all_the_same() -> None:
    words = ["--add", "--producer", "--topic", "pii-*", "--allow-principal", "user:temp", "--allow-host", "web-1"]
    code, out, err = run(*words)
    assert code == 1  # nobody listens there: it was tried
    assert out.startswith(f"{FAILED}can't reach Klamm")
    told = err.splitlines()
    assert all(line.startswith("klamm acls: warning: ") for line in told)
    assert [next(word for word in ("`pii-*`", "`user:temp`", "`web-1`") if word in line) for line in told] == [
        "`pii-*`",
        "`user:temp`",
        "`web-1`",
    ]
    assert "warning" not in run("--add", "--topic", "pii-", "--allow-principal", "User:temp")[2]
    assert "warning" not in run("--list", "--topic", "pii-*")[2]
