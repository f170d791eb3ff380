"""`make bench`: what a decision costs, in process and over HTTP beside an empty ASGI route in the same run.

Figures are CPU time (of the measuring thread, of the server's process), medians of rounds with the lowest and highest.
Server and load stand on different cores where there are two.
"""

import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID

from app.core.authorize import Authorization
from app.core.codes import AclOperation, ResourceType
from app.core.configs import AuthorizerConfig
from app.core.hosts import parse_address
from app.core.image import AuthorizerImage, ImageBuilder
from app.core.records import GENESIS_HASH, FeedHead
from tests.bench.workload import Question, Workload, cidr, nested, onetopic, realistic, rows_in_slices

SERVER = Path(__file__).with_name("server.py")
ROOT = Path(__file__).parents[2]
QUICK = os.environ.get("QUICK") == "1"
ROUNDS = 5
ROUND_S = 0.5 if QUICK else 1.5
CONNECTIONS = 16
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    sizes = (1_000, 10_000) if QUICK else (1_000, 10_000, 100_000, 1_000_000)
    print("in process, cold, one caller a decision          CPU us  (low-high)")
    for workload in _in_process(sizes):
        low, middle, high = _decisions(workload)
        print(f"  {workload.name:<45} {middle:6.2f}  ({low:.2f}-{high:.2f})")
    print("over HTTP, audit and metrics on           CPU us a request   empty route   ratio   us a decision")
    for size in sizes[1:]:
        for batch in (1, 50):
            ours, yardstick = _requests(realistic(size), batch)
            ratio = ours / yardstick
            shape = f"realistic {size:>9,} ACLs, {batch:>2} a request"
            print(f"  {shape} {ours:10.1f} {yardstick:16.1f} {ratio:9.2f} {ours / batch:12.2f}")


def _in_process(sizes: Sequence[int]) -> Iterator[Workload]:
    for size in sizes:
        yield realistic(size)
    for shape in (nested, onetopic):
        yield shape(10_000)
    yield cidr(1_000)


def _image(workload: Workload) -> AuthorizerImage:
    builder = ImageBuilder(AuthorizerConfig())
    for rows in rows_in_slices(workload.rows):
        builder.add_rows(rows)
    return builder.build(FeedHead("bench", UUID(int=1), 0, GENESIS_HASH, 1))


def _decisions(workload: Workload) -> tuple[float, float, float]:
    image = _image(workload)
    topic = int(ResourceType.TOPIC)
    figures = []
    for at in range(ROUNDS):
        asked = [(each, parse_address(each.address)) for each in workload.questions(8_192, seed=at)]
        began = time.thread_time()
        for question, address in asked:
            Authorization(image, question.principal, address).decide(question.operation, topic, question.resource_name)
        figures.append((time.thread_time() - began) / len(asked) * 1e6)
    return min(figures), statistics.median(figures), max(figures)


def _requests(workload: Workload, batch: int) -> tuple[float, float]:
    """CPU microseconds a request: of a replica, and of the empty route, in alternating rounds."""
    questions = workload.questions(300 * batch)
    messages = [_message(questions[at : at + batch]) for at in range(0, len(questions), batch)]
    with _server("empty") as yardstick, _server("klamm", str(len(workload.rows))) as ours, _on_core(1):
        figures: dict[int, list[float]] = {ours[0]: [], yardstick[0]: []}
        for _ in range(ROUNDS + 1):
            for pid, port in (yardstick, ours):
                before = _cpu_s(pid)
                count = _load(port, messages)
                figures[pid].append((_cpu_s(pid) - before) / count * 1e6)
    return statistics.median(figures[ours[0]][1:]), statistics.median(figures[yardstick[0]][1:])


def _message(questions: Sequence[Question]) -> bytes:
    first = questions[0]
    context = {
        "principal": first.principal,
        "client_address": first.address,
        "listener_name": "CLIENT",
        "security_protocol": "SASL_SSL",
        "request_type": 3,
        "request_version": 13,
        "client_id": "rdkafka",
        "correlation_id": 77,
    }
    actions = [
        {
            "operation": AclOperation(each.operation).name,
            "resource_type": "TOPIC",
            "resource_name": each.resource_name,
            "pattern_type": "LITERAL",
            "resource_reference_count": 1,
            "log_if_allowed": True,
            "log_if_denied": True,
        }
        for each in questions
    ]
    body = json.dumps({"context": context, "actions": actions}).encode()
    head = b"POST /v1/authorize HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


@contextmanager
def _server(*arguments: str) -> Iterator[tuple[int, int]]:
    """Process id and port of a server on the first core."""
    command = [sys.executable, str(SERVER), *arguments]
    with _on_core(0):
        server = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
    try:
        assert server.stdout is not None
        yield server.pid, int(server.stdout.readline())
    finally:
        server.terminate()
        server.communicate(timeout=60)


@contextmanager
def _on_core(core: int) -> Iterator[None]:
    """Run what is begun here on this core, where there is one and the system lets us choose."""
    choose: Callable[[int, set[int]], None] | None = getattr(os, "sched_setaffinity", None)
    if choose is None:
        yield
        return
    before = os.sched_getaffinity(0)
    with suppress(OSError):
        choose(0, {core})
    try:
        yield
    finally:
        choose(0, before)


def _load(port: int, messages: Sequence[bytes]) -> int:
    """Keep all connections busy for a round; a request each, then an answer each. Returns how many were answered."""
    connections = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(CONNECTIONS)]
    draw = random.Random(3)
    count, end = 0, time.monotonic() + ROUND_S
    while time.monotonic() < end:
        for connection in connections:
            connection.sendall(draw.choice(messages))
        for connection in connections:
            _take_answer(connection)
        count += len(connections)
    for connection in connections:
        connection.close()
    return count


def _take_answer(connection: socket.socket) -> None:
    got = connection.recv(65_536)
    assert got.startswith(b"HTTP/1.1 200"), got
    head, _, rest = got.partition(b"\r\n\r\n")
    left = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]) - len(rest)
    while left > 0:
        left -= len(connection.recv(65_536))


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


if __name__ == "__main__":
    main()
