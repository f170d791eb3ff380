"""A file of secrets on a mount that is read-only."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate.unit.client.http.test_secret_files import TOKEN

MOUNT_AND_READ = """
set -e
mount -t tmpfs -o mode=0755 none "$1"
cp "$2" "$1/token"
chmod 0444 "$1/token"
mount -o remount,ro "$1"
exec "$3" -c 'import sys
from dataclasses import replace
from pathlib import Path
from app.client.http.access import Access
from app.client.http.credentials import Bearer
access = Access("http://127.0.0.1:1", "User:admin", token_file=Path(sys.argv[1]))
print(len(Bearer(access).header()["authorization"]))' "$1/token"
"""


def test_a_secret_mounted_as_kubernetes_does_is_read_whatever_its_mode(tmp_path: Path) -> None:
    alone = ["unshare", "--mount", "--map-root-user"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*alone, "true"], capture_output=True, check=False, timeout=60).returncode
    ):
        pytest.skip("this machine lets nobody mount anything")
    token_file = tmp_path / "token"
    token_file.write_text(f"{TOKEN}\n")
    folder = tmp_path / "secret"
    folder.mkdir()
    command = [*alone, "/bin/sh", "-c", MOUNT_AND_READ, "sh", str(folder), str(token_file), sys.executable]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, cwd=Path(__file__).parents[5]
    )
    assert (done.stdout, done.stderr) == (f"{len('Bearer ') + len(TOKEN)}\n", "")
