"""Commands that copy a device to a disk without room for it."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

KLAMM = str(Path(sys.executable).with_name("klamm"))


@pytest.mark.parametrize("command", [["plan"], ["import", "--quiet"], ["apply", "--yes"]])
def test_a_disk_without_room_for_a_device_is_told(command: list[str], tmp_path: Path) -> None:
    words = [KLAMM, *command, "/dev/zero", "--klamm", "http://127.0.0.1:1", "--as", "User:admin"]

    def fill_soon() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))

    ended = subprocess.run(
        words,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        preexec_fn=fill_soon,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"klamm {command[0]}: can't copy `/dev/zero` to `{tmp_path}` (File too large); name another folder with "
        "TMPDIR\n"
    )
    assert list(tmp_path.iterdir()) == []
