"""What may stand in a database URL, by the word of PostgreSQL itself."""

import subprocess

from app.formats.database_url import DatabaseUrl
from app.store.embedded.binaries import find_binaries
from app.store.embedded.process import Launcher

_OF_A_SESSION = {"user", "superuser", "backend", "superuser-backend"}


def test_every_setting_of_a_session_may_stand_in_the_url() -> None:
    postgres = find_binaries(Launcher()).program("postgres")
    done = subprocess.run([postgres, "--describe-config"], capture_output=True, text=True, check=True, timeout=60)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    names = [name for name, context, *_ in rows if context in _OF_A_SESSION]
    assert len(names) > 100
    for name in names:
        assert DatabaseUrl.parse(f"postgresql://db/klamm?{name}=1").options == {name: "1"}
