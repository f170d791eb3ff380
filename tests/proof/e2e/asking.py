"""Clients that ask for decisions all the time and know the right answers."""

import threading
import time

import httpx

from tests.asking_again import client_of
from tests.klamm import Json, Process
from tests.proof.e2e.repeating import Repeating


class Asking(Repeating):
    """Some threads that post this body to authorize for as long as the block lasts.

    `wrong` holds whatever came back that was not the expected results; `answers` counts all that came back.
    """

    def __init__(self, service: Process, body: Json, expected: list[str], threads: int = 2) -> None:
        self.answers = 0
        self.wrong: list[str] = []
        self.slowest_s = 0.0
        self._url = service.url
        self._body = body
        self._expected = expected
        self._lock = threading.Lock()
        super().__init__(*[self._ask] * threads)

    def _ask(self) -> None:
        with client_of(self._url) as http:
            while not self.done.is_set():
                began_at = time.monotonic()
                self._note(self._fault_of(http), time.monotonic() - began_at)
                time.sleep(0.005)

    def _fault_of(self, http: httpx.Client) -> str | None:
        try:
            reply = http.post("/v1/authorize", json=self._body)
        except httpx.HTTPError as fault:
            return repr(fault)
        if reply.status_code != httpx.codes.OK or reply.json()["results"] != self._expected:
            return f"{reply.status_code} {reply.text}"
        return None

    def _note(self, fault: str | None, took_s: float) -> None:
        with self._lock:
            self.answers += 1
            self.slowest_s = max(self.slowest_s, took_s)
            if fault is not None:
                self.wrong.append(fault)
