"""Threads that write and ask while a story goes on, and what they have seen."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from tests.asking_again import client_of
from tests.klamm import LIMIT_S, Json, action, context, wait_until
from tests.proof.e2e.history import History, offset_of

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """What one batch of questions came to."""

    token: str
    results: list[str]

    @property
    def offset(self) -> int:
        return offset_of(self.token)


class Crowd:
    """Threads that run until the block ends or `stop` is called; what one of them raises ends all and is raised."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(32)
        self._stopped = threading.Event()
        self._futures: list[Future[object]] = []
        self._asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._pool.shutdown()
        for fault in filter(None, (future.exception() for future in self._futures)):
            raise fault from error

    @property
    def going(self) -> bool:
        return not self._stopped.is_set()

    def start(self, work: Callable[P, T], *arguments: P.args, **more: P.kwargs) -> Future[T]:
        def guarded() -> T:
            try:
                return work(*arguments, **more)
            except BaseException:
                self._stopped.set()
                raise

        future = self._pool.submit(guarded)
        self._futures.append(future)  # type: ignore[arg-type] # Future is invariant, but it is only waited for
        return future

    def let_ask(self, count: int = 10) -> None:
        """Wait for some more answers."""
        wanted = self._asked + count
        wait_until(lambda: self._asked >= wanted or not self.going, "more answers")

    def go_on_for(self, seconds: float) -> None:
        """Let them, unless one of them fails."""
        self._stopped.wait(seconds)

    def stop(self) -> None:
        self._stopped.set()

    def pause(self, seconds: float) -> None:
        """For a thread of the crowd: rest, but not beyond the end."""
        self._stopped.wait(seconds)

    def ask(
        self, url: str, resource_names: Sequence[str], principal: str = "User:alice", gap_s: float = 0.0
    ) -> list[Answer]:
        """A thread's work: the same batch again and again; each answer must be a 200, and no older than the last."""
        question = question_of(resource_names, principal)
        answers: list[Answer] = []
        with client_of(url) as http:
            while self.going:
                reply = http.post("/v1/authorize", json=question)
                assert reply.status_code == 200, reply.text
                answers.append(answer_in(reply.json()))
                self._asked += 1
                self.pause(gap_s)
        return answers


def question_of(resource_names: Sequence[str], principal: str = "User:alice") -> Json:
    return {"context": context(principal), "actions": [action(name) for name in resource_names]}


def answer_in(body: Json) -> Answer:
    return Answer(body["token"], body["results"])


def judge(answers: Sequence[Answer], resource_names: Sequence[str], history: History) -> None:
    """Each answer is S(v) for the v that it names, and v never goes back."""
    for answer in answers:
        expected = history.results(resource_names, answer.offset)
        assert answer.results == expected, f"at {answer.token}: {answer.results} instead of {expected}"
    offsets = [answer.offset for answer in answers]
    assert offsets == sorted(offsets), "an answer was older than the one before it"


def seconds_until(check: Callable[[], bool], what: str, within_s: float = LIMIT_S) -> float:
    """How long it took until the check held; looked at every millisecond."""
    began_at = time.monotonic()
    while not check():
        assert time.monotonic() - began_at < within_s, f"never came true: {what}"
        time.sleep(0.001)
    return time.monotonic() - began_at
