"""The nodes of a campaign: processes that answer whether User:alice may read a topic, and how old that answer is."""

import json
import os
import re
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.campaign.links import Link
from tests.clocks import Clocks, inherited
from tests.klamm import Json, Process, action, context, over_socket
from tests.proof.kafka.authorizer import Authorizer, Host
from tests.proof.kafka.broker import Broker, free_ports, new_cluster_id
from tests.proof.kafka.jvm import Jvm
from tests.proof.kafka.wire import ALLOWED, REFUSED, Wire

WHO = "User:alice"
_ASKED_S = 4.0
_AGE = re.compile(r"last known to equal the head (\d+\.\d) s ago")
_RMI = ("connectionTimeout", "responseTimeout", "handshakeTimeout")
_FIGURES = Path(__file__).with_name("Figures.java")

Verdicts = dict[str, bool]
"""By name, whether it is allowed. Names without a decision are left out."""


@dataclass(frozen=True)
class Reply:
    """Of a service. `code` is that of a refusal."""

    verdicts: Verdicts
    code: str = ""


NO_REPLY = Reply({}, "NO_REPLY")


class Node(ABC):
    """One process that can be ended, begun and frozen; these are the main thread's, questions are any thread's."""

    def __init__(self, name: str, links: Sequence[Link], clocks: Clocks) -> None:
        self.name = name
        self.links = links
        """By which it reaches those that it follows."""
        self.is_up = False
        self.is_frozen = False
        self.fed_since: float | None = None
        """Since when there is a way from it to the store; None: there is none."""
        self.forged: float | None = None
        """Since when it may have believed a forged upstream (infinite: it is just being told); None: it has not."""
        self.seen: dict[str, float] = {}
        """When it first allowed each mark."""
        self.clock_s = 0
        self._clocks = clocks

    def begin(self) -> None:
        with inherited(self._clocks.off(self.clock_s)):
            self._begin()
        self.is_up = True

    def end(self, sig: int) -> None:
        """By SIGTERM or SIGKILL."""
        self.is_up = False
        self._end(sig)

    def freeze(self) -> None:
        self.is_frozen = True
        os.kill(self.pid(), signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid(), signal.SIGCONT)
        self.is_frozen = False

    @abstractmethod
    def pid(self) -> int: ...

    @abstractmethod
    def ask(self, names: Sequence[str]) -> Verdicts:
        """Without a token; empty if there is no answer."""

    @abstractmethod
    def age_s(self) -> float | None:
        """How old it says that its state is; None if it does not know, or does not say."""

    @abstractmethod
    def snapshots(self) -> int | None:
        """How many it has taken since it began; None if it does not say."""

    def said(self) -> list[str]:
        """The lines of its log, also of processes before this one."""
        return []

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _end(self, sig: int) -> None: ...


class ServiceNode(Node):
    """`klamm serve` on a port of its own."""

    def __init__(
        self,
        name: str,
        links: Sequence[Link],
        clocks: Clocks,
        arguments: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name, links, clocks)
        self.url = f"http://127.0.0.1:{free_ports(1)[0]}"
        self._arguments = ["--port", self.url.rpartition(":")[2], *arguments]
        self._variables = variables or {}
        self._service: Process | None = None
        self._said: list[str] = []

    def pid(self) -> int:
        assert self._service is not None
        return self._service.process.pid

    def _begin(self) -> None:
        self._service = over_socket(*self._arguments, settings=self._variables)

    def _end(self, sig: int) -> None:
        assert self._service is not None
        self._service.stop(sig)
        self._said += self._service.lines
        self._service = None

    def said(self) -> list[str]:
        return self._said + ([] if self._service is None else self._service.lines)

    def client(self) -> httpx.Client:
        """For one thread."""
        return httpx.Client(base_url=self.url, timeout=_ASKED_S)

    def ask(self, names: Sequence[str]) -> Verdicts:
        return self.ask_at(names, None).verdicts

    def ask_at(self, names: Sequence[str], at_least: str | None) -> Reply:
        actions = [action(name, log_if_allowed=False, log_if_denied=False) for name in names]
        body: Json = {"context": context(WHO), "actions": actions}
        if at_least is not None:
            body["at_least"] = at_least
        reply = self._request("POST", "/v1/authorize", body)
        if reply is None:
            return NO_REPLY
        with suppress(ValueError):
            answer = reply.json()
            if reply.status_code == httpx.codes.OK:
                results = (each == "ALLOWED" for each in answer["results"])
                return Reply(dict(zip(names, results, strict=True)))
            return Reply({}, str(answer.get("code")))
        return NO_REPLY

    def age_s(self) -> float | None:
        reply = self._request("GET", "/readyz?verbose", None)
        found = None if reply is None else _AGE.search(reply.text)
        return None if found is None else float(found[1])

    def snapshots(self) -> int | None:
        reply = self._request("GET", "/metrics", None)
        found = None if reply is None else re.search(r"^klamm_image_loads_total (\S+)$", reply.text, re.MULTILINE)
        return None if found is None else int(float(found[1]))

    def _request(self, method: str, path: str, body: Json | None) -> httpx.Response | None:
        client = _client_of_thread(self)
        try:
            return client.request(method, path, json=body)
        except httpx.HTTPError:
            return None


_threads = threading.local()


def _client_of_thread(node: ServiceNode) -> httpx.Client:
    clients: dict[str, httpx.Client] = _threads.__dict__.setdefault("clients", {})
    if node.name not in clients:
        clients[node.name] = node.client()
    return clients[node.name]


class HostNode(Node):
    """The plugin in a JVM of its own, without a broker."""

    def __init__(self, name: str, links: Sequence[Link], clocks: Clocks, authorizer: Authorizer, folder: Path) -> None:
        super().__init__(name, links, clocks)
        folder.mkdir()
        self._authorizer, self._folder = authorizer, folder
        self._host: Host | None = None
        self._turn = threading.Lock()

    def pid(self) -> int:
        assert self._host is not None
        return self._host.pid

    def _begin(self) -> None:
        urls = ",".join(link.url for link in self.links)
        settings = {"klamm_urls": urls, "klamm_state_dir": str(self._folder / "state")}
        self._host = Host(self._authorizer, self._folder, **settings)
        assert self._host.began == "started", self._host.began

    def _end(self, sig: int) -> None:
        assert self._host is not None
        if sig == signal.SIGTERM:
            with self._turn, suppress(AssertionError, OSError):
                self._host.ended()
        else:
            os.kill(self._host.pid, sig)
        with self._turn:
            self._host.__exit__(None, None, None)
            self._host = None

    def ask(self, names: Sequence[str]) -> Verdicts:
        said = self._do("ask", names=list(names), principal=WHO, audited=False)
        results = said.strip("[]").split(", ")
        if len(results) != len(names) or not set(results) <= {"ALLOWED", "DENIED"}:
            return {}
        return {name: result == "ALLOWED" for name, result in zip(names, results, strict=True)}

    def age_s(self) -> float | None:
        age_ms = self._metrics().get("replica-age-ms", -1.0)
        return None if age_ms < 0 else age_ms / 1000

    def snapshots(self) -> int | None:
        count = self._metrics().get("snapshots-total")
        return None if count is None else int(count)

    def _metrics(self) -> dict[str, float]:
        said = self._do("metrics")
        return json.loads(said) if said.startswith("{") else {}

    def _do(self, what: str, **more: object) -> str:
        with self._turn, suppress(AssertionError, OSError, ValueError):
            if self._host is not None:
                return self._host.do(what, **more)
        return ""


class BrokerNode(Node):
    """A real broker, which is its own controller; asked by Kafka's protocol, its age by JMX."""

    def __init__(self, name: str, links: Sequence[Link], clocks: Clocks, authorizer: Authorizer, folder: Path) -> None:
        super().__init__(name, links, clocks)
        folder.mkdir()
        (self._port,) = free_ports(1)
        settings = (
            "authorizer.class.name=klamm.kafka.KlammAuthorizer",
            f"klamm.urls={','.join(link.url for link in links)}",
            f"klamm.state.dir={folder / 'acls'}",
            "klamm.principal=User:admin",
        )
        remote = "-Dcom.sun.management.jmxremote"
        flags = (
            f"{remote}.port={self._port}",
            f"{remote}.rmi.port={self._port}",
            f"{remote}.host=127.0.0.1",
            "-Djava.rmi.server.hostname=127.0.0.1",
            f"{remote}.authenticate=false",
            f"{remote}.ssl=false",
        )
        self._kafka = authorizer.kafka
        self._broker = Broker(authorizer.kafka, folder, new_cluster_id(), settings, flags)
        self._wire: Wire | None = None
        self._beans: Jvm | None = None
        self._turn, self._beans_turn = threading.Lock(), threading.Lock()

    def pid(self) -> int:
        return self._broker.pid

    def _begin(self) -> None:
        self._broker.begin()
        self._broker.has_begun()

    def _end(self, sig: int) -> None:
        if sig == signal.SIGTERM:
            self._broker.stop()
        else:
            self._broker.kill()

    def close(self) -> None:
        """With the JVM that asks for its figures."""
        if self._beans is not None:
            self._beans.__exit__(None, None, None)

    def said(self) -> list[str]:
        return self._broker.said().splitlines()

    def ask(self, names: Sequence[str]) -> Verdicts:
        with self._turn:
            try:
                if self._wire is None:
                    self._wire = Wire(self._broker.address, "alice", _ASKED_S)
                codes = self._wire.describe(*names)
            except (OSError, AssertionError):
                if self._wire is not None:
                    self._wire.__exit__(None, None, None)
                self._wire = None
                return {}
        return {name: code == ALLOWED for name, code in codes.items() if code in (ALLOWED, REFUSED)}

    def age_s(self) -> float | None:
        """The greater one of its two authorizers, the broker's and the controller's."""
        ages_ms = [int(each) for each in self._figures("ReplicaAgeMs")]
        return None if not ages_ms or min(ages_ms) < 0 else max(ages_ms) / 1000

    def snapshots(self) -> int | None:
        counts = self._figures("Snapshots")
        return sum(map(int, counts)) if counts else None

    def _figures(self, name: str) -> list[str]:
        with self._beans_turn, suppress(AssertionError, OSError):
            if self._beans is None:
                limits = tuple(f"-Dsun.rmi.transport.tcp.{each}={int(_ASKED_S * 1000)}" for each in _RMI)
                self._beans = Jvm(self._kafka, str(_FIGURES), str(self._port), flags=limits)
            said = self._beans.answer_to(name)
            return said.split(";") if said else []
        return []
