"""Service, follower and plugin of this version and of one before, in all mixtures: nobody's feed stops.

The version before is a commit of this repository, run by the present environment's packages.
"""

import argparse
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.campaign.journal import Journal
from tests.klamm import ROOT, Process, acl, action, over_socket
from tests.postgres import Postgres, sql
from tests.proof.kafka.authorizer import Authorizer, Host, build
from tests.proof.kafka.broker import free_ports
from tests.proof.kafka.jars import find_kafka
from tests.surroundings import without_ours

BEFORE = "57116b2"
"""The last commit whose followers know nothing of epochs."""
_RUN = "import sys; from app.cli.entry_point import main; sys.exit(main())"
_WITHIN_S = 30.0
_MIGRATION_S = 120

FOLLOWS = "nobody's feed stops"


@dataclass(frozen=True)
class Version:
    """A clone of the repository, and its plugin."""

    name: str
    tree: Path
    authorizer: Authorizer

    @property
    def program(self) -> Sequence[str]:
        return (sys.executable, "-c", _RUN)

    @property
    def variables(self) -> Mapping[str, str]:
        return {"PYTHONPATH": str(self.tree), "PYTHONDONTWRITEBYTECODE": "1"}

    def migrate(self, dsn: str) -> None:
        environment = {**without_ours(), **self.variables, "KLAMM_DATABASE_URL": dsn}
        command = [*self.program, "migrate"]
        subprocess.run(command, cwd=self.tree, env=environment, check=True, capture_output=True, timeout=_MIGRATION_S)


class Mixture:
    """A service, its follower, a plugin that follows the service and one that follows the follower."""

    def __init__(self, stack: ExitStack, dsn: str, folder: Path, versions: Mapping[str, Version]) -> None:
        self._dsn, self._folder = dsn, folder
        folder.mkdir()
        self._ports = {name: str(port) for name, port in zip(("service", "follower"), free_ports(2), strict=True)}
        self.versions = dict(versions)
        self._services: dict[str, Process] = {}
        self._hosts: dict[str, Host] = {}
        stack.callback(self._end_all)
        for part in ("service", "follower", "plugin"):
            self.begin(part)

    def begin(self, part: str) -> None:
        """Each part goes on where its state was left."""
        version = self.versions[part]
        if part == "service":
            self._services[part] = self._served(version, part, [], {"KLAMM_DATABASE_URL": self._dsn}).ready()
        elif part == "follower":
            state = {"KLAMM_STATE_PATH": str(self._folder / "follower-state")}
            self._services[part] = self._served(version, part, ["--upstream", self._url("service")], state)
        else:
            for name in self._ports:
                own = self._folder / f"plugin-of-{name}"
                own.mkdir(exist_ok=True)
                settings = {"klamm_urls": self._url(name), "klamm_state_dir": str(own / "state")}
                self._hosts[name] = Host(version.authorizer, own, **settings)

    def end(self, part: str, sig: int = signal.SIGTERM) -> None:
        if part == "plugin":
            while self._hosts:
                self._hosts.popitem()[1].__exit__(None, None, None)
        else:
            self._services.pop(part).stop(sig)

    @contextmanager
    def second_service(self, version: Version) -> Iterator[Process]:
        """On the same store, as while replicas are replaced one by one."""
        with over_socket(
            settings={**version.variables, "KLAMM_DATABASE_URL": self._dsn},
            folder=version.tree,
            program=version.program,
        ) as service:
            yield service.ready()

    @property
    def service(self) -> Process:
        return self._services["service"]

    def until_all_say(self, name: str, answer: str) -> dict[str, float]:
        """How long each took; those that took too long are left out."""
        began_at = time.monotonic()
        took: dict[str, float] = {}
        while len(took) < len(self._answers(name)) and time.monotonic() < began_at + _WITHIN_S:
            for node, said in self._answers(name).items():
                if said == answer:
                    took.setdefault(node, time.monotonic() - began_at)
            time.sleep(0.05)
        return took

    @property
    def nodes(self) -> set[str]:
        return {*self._services, *(f"plugin of {name}" for name in self._hosts)}

    def snapshots_of_follower(self) -> int:
        return int(self._services["follower"].metric("klamm_image_loads_total"))

    def _answers(self, name: str) -> dict[str, str]:
        answers = {f"plugin of {each}": host.reads(name) for each, host in self._hosts.items()}
        for each, service in self._services.items():
            body = {"context": {"principal": "User:alice", "client_address": "127.0.0.1"}, "actions": [action(name)]}
            reply = service.http.post("/v1/authorize", json=body)
            answers[each] = reply.json()["results"][0] if reply.is_success else str(reply.status_code)
        return answers

    def _served(self, version: Version, part: str, arguments: list[str], more: Mapping[str, str]) -> Process:
        return over_socket(
            "--port",
            self._ports[part],
            *arguments,
            settings={**version.variables, **more},
            folder=version.tree,
            program=version.program,
        )

    def _url(self, part: str) -> str:
        return f"http://127.0.0.1:{self._ports[part]}"

    def _end_all(self) -> None:
        self.end("plugin")
        for part in list(self._services):
            self.end(part, signal.SIGKILL)


class Story:
    """What happens to a mixture; everybody must have the new state in time after each step."""

    def __init__(self, mixture: Mixture, journal: Journal, title: str) -> None:
        self._mixture, self._journal, self._title = mixture, journal, title
        self._count = itertools.count(1)
        self._live: list[str] = []

    def changes(self, when: str, service: Process | None = None) -> None:
        """A creation, then a deletion of what is there."""
        service = service or self._mixture.service
        name = f"topic-{next(self._count)}"
        service.create(acl(name))
        self._expect(name, "ALLOWED", f"a creation {when}")
        if self._live:
            gone = self._live.pop()
            service.delete({"resource_name": gone})
            self._expect(gone, "DENIED", f"a deletion {when}")
        self._live.append(name)

    def restarts(self, part: str, sig: int, version: Version | None = None) -> None:
        """Ends and begins it, perhaps as another version; then a change."""
        self._mixture.end(part, sig)
        if version is not None:
            self._mixture.versions[part] = version
        self._mixture.begin(part)
        now = self._mixture.versions[part].name
        self.changes(f"after the {part} was begun again ({now}, {signal.Signals(sig).name})")

    def beside(self, version: Version) -> None:
        """Another service writes to the same store, in turn with this one."""
        with self._mixture.second_service(version) as second:
            for turn in range(2):
                self.changes(f"by a second service ({version.name}), turn {turn}", second)
                self.changes(f"beside a second service ({version.name}), turn {turn}")

    def _expect(self, name: str, answer: str, what: str) -> None:
        took = self._mixture.until_all_say(name, answer)
        for node in self._mixture.nodes:
            if node not in took:
                self._journal.violation(FOLLOWS, f"{node} of {self._title}", f"no {answer} within 30 s of {what}")
                continue
            self._journal.checked("changes seen by a node")
            self._journal.took(f"until {node} had a change", took[node], f"{self._title}, {what}")


class Upgrade:
    def __init__(self, server: Postgres, journal: Journal, folder: Path, before: Version, now: Version) -> None:
        self._server, self._journal, self._folder = server, journal, folder
        self._before, self._now = before, now
        self._count = itertools.count(1)

    def run(self) -> None:
        parts = ("service", "follower", "plugin")
        for versions in itertools.product((self._before, self._now), repeat=len(parts)):
            self._tell_of(dict(zip(parts, versions, strict=True)))
        for order in itertools.permutations(parts):
            self._tell_of_an_upgrade(order)

    def _tell_of(self, versions: Mapping[str, Version]) -> None:
        title = ", ".join(f"{part} {version.name}" for part, version in versions.items())
        service = versions["service"]
        with self._story(title, service, versions) as (story, mixture, dsn):
            story.changes("at the start")
            self._restarts(story)
            if service is self._before:
                self._now.migrate(dsn)
                story.changes("after the migration")
                story.beside(self._now)
                self._restarts(story)
            else:
                story.beside(self._before)
            snapshots = mixture.snapshots_of_follower()
            self._journal.step(f"{title}: done; {snapshots} snapshots of the follower since it began")

    def _tell_of_an_upgrade(self, order: Sequence[str]) -> None:
        """One part after the other is replaced, each with its state."""
        title = f"upgrade of {', '.join(order)}"
        versions = dict.fromkeys(order, self._before)
        with self._story(title, self._before, versions) as (story, mixture, dsn):
            story.changes("at the start")
            for part in order:
                if part == "service":
                    self._now.migrate(dsn)
                story.restarts(part, signal.SIGTERM, self._now)
                story.changes(f"once the {part} is new")
            self._restarts(story)
            self._journal.step(f"{title}: done; {mixture.snapshots_of_follower()} snapshots of the follower")

    @staticmethod
    def _restarts(story: Story) -> None:
        story.restarts("service", signal.SIGTERM)
        story.restarts("service", signal.SIGKILL)
        story.restarts("follower", signal.SIGTERM)
        story.restarts("plugin", signal.SIGKILL)

    @contextmanager
    def _story(
        self, title: str, migrated_by: Version, versions: Mapping[str, Version]
    ) -> Iterator[tuple[Story, Mixture, str]]:
        number = next(self._count)
        name = f"upgrade_{number}"
        sql(self._server.dsn, f"CREATE DATABASE {name}")
        dsn = f"{self._server.dsn.rpartition('/')[0]}/{name}"
        migrated_by.migrate(dsn)
        self._journal.step(title, "mixture")
        with ExitStack() as stack:
            mixture = Mixture(stack, dsn, self._folder / name, versions)
            yield Story(mixture, self._journal, title), mixture, dsn


@contextmanager
def _clone(commit: str, folder: Path) -> Iterator[Path]:
    """A worktree of this repository at the commit."""
    git = shutil.which("git")
    assert git is not None, "needs git"
    subprocess.run([git, "worktree", "add", "--detach", str(folder), commit], cwd=ROOT, check=True, timeout=60)
    try:
        yield folder
    finally:
        subprocess.run([git, "worktree", "remove", "--force", str(folder)], cwd=ROOT, check=False, timeout=60)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.upgrade", description=__doc__)
    parser.add_argument("--before", default=BEFORE, metavar="COMMIT", help="the version before (%(default)s)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    journal = Journal()
    folder = Path(tempfile.mkdtemp(prefix="klamm-upgrade-"))
    try:
        with ExitStack() as stack:
            tree = stack.enter_context(_clone(arguments.before, folder / "before"))
            kafka = find_kafka()
            before = Version("before", tree, build(kafka, folder / "plugin-before", tree))
            now = Version("now", ROOT, build(kafka, folder / "plugin-now"))
            server = stack.enter_context(Postgres(folder / "postgres"))
            Upgrade(server, journal, folder, before, now).run()
    except KeyboardInterrupt:
        journal.step("interrupted")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        print(journal.report())
    return 1 if journal.has_violations else 0


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    sys.exit(main())
