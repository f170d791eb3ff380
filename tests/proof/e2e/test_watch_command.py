"""`klamm watch` as an operator runs it: a process, a service that goes and comes back, Ctrl-C, a closed pipe."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.verify import load as load_verify
from app.client.watch import command as watch
from app.formats.command_errors import CommandError
from tests.client_runs import run
from tests.klamm import ROOT, SUPER_USER, Process, acl, context, over_socket, replica, wait_until
from tests.postgres import Postgres

KLAMM = [sys.executable, "-c", "import sys; from app.cli.entry_point import main; sys.exit(main(sys.argv[1:]))"]
PATIENCE_S = 60


class Watching:
    def __init__(self, url: str, folder: Path, *words: str) -> None:
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            command = [*KLAMM, "watch", "--klamm", url, *words]
            self.process = subprocess.Popen(command, stdout=out, stderr=err, cwd=ROOT)

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def until(self, text: str) -> None:
        wait_until(lambda: text in self.out or self.process.poll() is not None, f"it shows {text}")
        assert text in self.out, self.err

    def end(self, sig: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(sig)
        return self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def watching(url: str, folder: Path, *words: str) -> Iterator[Watching]:
    found = Watching(url, folder, *words)
    try:
        yield found
    finally:
        found.process.kill()
        found.process.wait(PATIENCE_S)


def create(service: Process, name: str, comment: str | None = None) -> str:
    body = {"context": context(), "bindings": [acl(name)], "comment": comment}
    return str(service.post("/v1/acls", body)["token"])


def test_changes_are_shown_as_they_are_made_and_ctrl_c_says_where_to_go_on(service: Process, tmp_path: Path) -> None:
    service.delete({})
    with watching(service.url, tmp_path, "--bookmarks") as shown:
        shown.until("no more changes up to")
        create(service, "watched\x1b[2J\n", "OPS-7")
        service.delete({"resource_name": "watched\x1b[2J\n"})
        shown.until(" - ")
        token = create(service, "last")
        shown.until("TOPIC last")
        assert shown.end() == 130
        assert shown.err.endswith(f"klamm watch: stopped; resume from here with --after {token}\n")
        changes = [line for line in shown.out.splitlines() if "no more changes" not in line]
    assert [line.partition(" ")[2] for line in changes] == [
        f'{SUPER_USER} + ALLOW User:alice READ on TOPIC "watched\\\\u001b[2J\\\\n" "OPS-7"'.replace("\\\\", "\\"),
        f'{SUPER_USER} - ALLOW User:alice READ on TOPIC "watched\\\\u001b[2J\\\\n"'.replace("\\\\", "\\"),
        f"{SUPER_USER} + ALLOW User:alice READ on TOPIC last",
    ]


def test_a_filter_shows_what_it_meets(service: Process, tmp_path: Path) -> None:
    service.delete({})
    with watching(service.url, tmp_path, "--topic", "mine", "--snapshot") as shown:
        shown.until("changes from here on")
        create(service, "other")
        create(service, "mine")
        shown.until("TOPIC mine")
        assert "TOPIC other" not in shown.out


def test_what_it_keeps_as_json_is_what_verify_proves(service: Process, tmp_path: Path) -> None:
    create(service, "before")
    with watching(service.url, tmp_path, "--snapshot", "--output", "json", "--bookmarks") as shown:
        shown.until('"synced"')
        create(service, "after-it", "why")
        shown.until("after-it")
        shown.end()
    types = [json.loads(line)["type"] for line in shown.out.splitlines()]
    assert (types[0], types[-1]) != (types[-1], types[0])
    assert verified(tmp_path / "out").startswith("holds up to offset")


def test_it_follows_and_keeps_what_verify_proves_over_several_epochs(postgres: Postgres, tmp_path: Path) -> None:
    dsn = postgres.new_store()
    with replica(dsn) as first, replica(dsn) as second:
        create(first.ready(), "one")
        with watching(first.url, tmp_path, "--snapshot", "--output", "json", "--bookmarks") as shown:
            shown.until('"synced"')
            # The first write of another process begins an epoch.
            token = create(second.ready(), "two")
            shown.until(token)
            shown.end()
    events = [json.loads(line) for line in shown.out.splitlines()]
    (began,) = [each for each in events if each["type"] == "epoch"]
    assert token.startswith(began["epoch"])
    assert shown.err.count("resume from here") == 1
    assert "trying again" not in shown.err
    assert verified(tmp_path / "out").startswith("holds up to offset 2: 1 records")


def verified(path: Path) -> str:
    verify = type("verify", (), {"add_arguments": staticmethod(_verify_arguments), "run": staticmethod(load_verify())})
    return run(verify, [str(path)]).text  # type: ignore[arg-type]  # as a module


def _verify_arguments(parser: object) -> None:
    from app.cli.verify import add_arguments  # noqa: PLC0415 - the same

    add_arguments(parser)  # type: ignore[arg-type]


def test_it_outlives_the_service_and_loses_nothing(tmp_path: Path) -> None:
    with Postgres(tmp_path / "data") as server:
        server.start()
        dsn = server.new_store()
        with replica(dsn) as first:
            port = first.ready().url.rpartition(":")[2]
            with watching(first.url, tmp_path, "--bookmarks") as shown:
                shown.until("no more changes up to")
                create(first, "one")
                shown.until("TOPIC one")
                first.stop(signal.SIGKILL)
                wait_until(lambda: "trying again" in shown.err, "the loss is told")
                with over_socket("--port", port, settings={"KLAMM_DATABASE_URL": dsn}) as again:
                    create(again.ready(), "two")
                    shown.until("TOPIC two")
                    assert "connected again" in shown.err
                assert shown.out.count("TOPIC one") == 1


def test_a_terminal_gets_lines_of_its_width(service: Process) -> None:
    service.delete({})
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "xterm"}
    with subprocess.Popen(
        [*KLAMM, "watch", "--klamm", service.url, "--snapshot"],
        stdout=follower,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment,
    ) as process:
        os.close(follower)
        text = b""
        while b"changes from here on" not in text:
            text += os.read(leader, 65_536)
        create(service, "n" * 200)
        while text.count(b"nn") < 90:
            text += os.read(leader, 65_536)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
    os.close(leader)
    assert max(map(len, text.decode().split("\r\n"))) <= 80


def test_a_reader_of_a_pipe_that_goes_ends_it(service: Process, tmp_path: Path) -> None:
    token = create(service, "x")
    with (
        (tmp_path / "err").open("wb") as err,
        subprocess.Popen(
            [*KLAMM, "watch", "--klamm", service.url, "--after", token], stdout=subprocess.PIPE, stderr=err, cwd=ROOT
        ) as process,
    ):
        assert process.stdout is not None
        create(service, "y")
        process.stdout.readline()
        process.stdout.close()
        create(service, "z")
        assert process.wait(PATIENCE_S) == 141
    assert (tmp_path / "err").read_text() == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--after", "garbage"], "`--after` is not a token of this service"),
        (["--after", "00000000-0000-0000-0000-000000000001:1"], "start over with --snapshot"),
        (["--principal", "alice"], "`alice` is not a principal"),
        (["--resource-pattern-type", "MATCH"], "MATCH needs a name"),
    ],
)
def test_what_was_asked_for_wrongly_is_told_with_the_way_out(service: Process, words: list[str], told: str) -> None:
    with pytest.raises(CommandError) as refused:
        run(watch, ["--klamm", service.url, *words])
    assert told in str(refused.value)
