"""Processes whose wall clock is off, by a shim between them and the C library; monotonic clocks stay as they are."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HOUR_S = 3_600

_SOURCE = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long off(void) {
    static long seconds;
    static int is_known;
    if (!is_known) {
        const char *text = getenv("CAMPAIGN_CLOCK_S");
        seconds = text ? atol(text) : 0;
        is_known = 1;
    }
    return seconds;
}

int clock_gettime(clockid_t id, struct timespec *at) {
    int result = (int) syscall(SYS_clock_gettime, id, at);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += off();
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    int result = (int) syscall(SYS_gettimeofday, at, zone);
    if (result == 0 && at) at->tv_sec += off();
    return result;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


class Clocks:
    """Environment variables that put a process' clock off. Without a C compiler no clock can be.

    PostgreSQL runs as another user, who must get into the folder.
    """

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        self._shim: Path | None = None
        if compiler is not None:
            source, shim = folder / "clock.c", folder / "clock.so"
            source.write_text(_SOURCE)
            subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(shim), str(source)], check=True, timeout=60)
            shim.chmod(0o755)
            self._shim = shim

    @property
    def can_be_off(self) -> bool:
        return self._shim is not None

    def off(self, seconds: int) -> Mapping[str, str]:
        if self._shim is None or seconds == 0:
            return {}
        return {"LD_PRELOAD": str(self._shim), "CAMPAIGN_CLOCK_S": str(seconds)}


@contextmanager
def inherited(variables: Mapping[str, str]) -> Iterator[None]:
    """What is begun in here has these variables."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
