"""Commands that speak to a service: wrong addresses, readers that go, streams that are closed."""

import subprocess
import sys

import pytest

from app.cli import main

_KLAMM = [sys.executable, "-c", "import sys; from app.cli import main; sys.exit(main())"]


@pytest.mark.parametrize("port", ["0", "65536", "73616"])
def test_a_port_that_is_none_is_refused_and_not_dialled_modulo(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "x.csv", "--as", "User:admin", "--klamm", f"http://127.0.0.1:{port}"]) == 2
    assert f"--klamm: port {port} is none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("closed", "arguments", "code"),
    [
        ("<&-", ["plan", "-", "--as", "User:admin"], 1),
        (">&-", ["acls", "--help"], 0),
        ("2>&-", ["plan", "x.csv"], 2),
        ("> /dev/full", ["openapi"], 2),
    ],
)
def test_closed_streams_and_full_disks_bring_no_stack(closed: str, arguments: list[str], code: int) -> None:
    command = " ".join([*(f"'{each}'" for each in [*_KLAMM, *arguments]), closed])
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)

    assert "Traceback" not in done.stderr
    assert done.returncode == code, done.stderr


def test_a_reader_that_goes_ends_it_without_a_word() -> None:
    command = " ".join(f"'{each}'" for each in [*_KLAMM, "acls", "--help"])
    done = subprocess.run(
        ["/bin/sh", "-c", f"({command}; echo $? >&2) | true"], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stderr.strip() in {"0", "141"}
