"""Every shell takes the commands that are shown for the words that they were made of."""

import shutil
import subprocess

import pytest

from app.client.acl_texts import command_for
from tests.gate.unit.client.why.test_command_lines import meant_by, topic

SHELLS = [each for each in ("sh", "dash", "bash", "busybox", "ksh", "zsh") if shutil.which(each) is not None]


def words_of(command: str, shell: str) -> list[str]:
    """As this shell takes it apart, with a program of the name that the command begins with."""
    start = [shell, "sh"] if shell == "busybox" else [shell]
    script = f"klamm() {{ printf '%s\\0' klamm \"$@\"; }}\n{command}\n"
    done = subprocess.run(start, input=script.encode(), capture_output=True, check=True)
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


HOSTILE = (
    "$(touch owned)",
    "`touch owned`", "it's", "'; touch owned; '", '"$HOME"', "a b", "-x", "--", "!!", "!id", "a\\", "\\n",
    "#x", "~", "~root", "=ls", "*", "?", "[a]", "{a,b}", "a;b", "a&b", "a|b", "<a", ">a", "$'\\x41'", "%1", "é", "😀",
    "\u00e9 ' \u4e2d",
)  # fmt: skip


def test_every_shell_takes_a_command_for_the_same_words(subtests: pytest.Subtests) -> None:
    for shell in SHELLS:
        for name in HOSTILE:
            with subtests.test(shell=shell, name=name):
                acl = topic(name, principal=f"User:{name}", host=name)
                command = command_for("add", acl, ("--as", name))
                assert command is not None
                assert command.isprintable()
                words = words_of(command, shell)
                assert words[:4] == ["klamm", "acls", "--as", name]
                assert meant_by(words) == [acl]
