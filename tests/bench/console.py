"""Section `console`: each page of the console in Chromium, over a store of all the ACLs."""

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

from tests.bench.load import ask, connect
from tests.bench.postgres import Server, filled_store
from tests.bench.processes import Served, cpu_s, klamm_serve, wait_until_ready
from tests.bench.report import Row, Section, Table, percentile, prose
from tests.bench.stored import size_of
from tests.bench.workload import Workload, realistic
from tests.proof.e2e.chromium import Page

_ROUNDS, _QUICK_ROUNDS = 10, 1
_WINDOWS, _QUICK_WINDOWS = 100, 10
_READY_WITHIN_S = 180.0
_PAINT_BAR_MS, _WINDOW_BAR_MS = 300, 50
_WIDTH = 1_400
_METHOD = f"""
    A real `klamm serve` on the embedded PostgreSQL, looked at by Chromium over loopback, {_WIDTH} pixels wide, on the
    core that the server does not have. Each page is loaded {_ROUNDS} times, another topic or principal each time. First
    paint is what the browser tells of the first contentful one, from when the address was asked for; shifts are the sum
    of all layout shifts until 0.2 s after it; CPU is the server's, a page with all that it
    fetches. Windows of the table are asked for as htmx does, over one connection, and timed from the request to the
    answer.
"""
_SEEN = """new Promise((done) => {
  let shifts = 0;
  const add = (list) => { for (const each of list.getEntries()) shifts += each.value; };
  new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
  const painted = () => performance.getEntriesByName("first-contentful-paint")[0];
  const look = () => (painted() ? setTimeout(() => done([painted().startTime, shifts]), 200) : setTimeout(look, 20));
  look();
})"""


def console(server: Server, *, quick: bool) -> Section:
    """First paint, layout shifts, the server's CPU; and windows of the table."""
    size = size_of(quick=quick)
    addresses = _addresses(realistic(size))
    with klamm_serve(filled_store(server, size)) as replica, tempfile.TemporaryDirectory() as folder:
        wait_until_ready(replica.port, _READY_WITHIN_S)
        pages = _pages(replica, addresses, Path(folder), _QUICK_ROUNDS if quick else _ROUNDS)
        windows = _windows(replica, addresses, _QUICK_WINDOWS if quick else _WINDOWS)
    tables = {
        f"First paint, {size:,} ACLs": [_row(what, "ms", each[0], _PAINT_BAR_MS) for what, each in pages.items()],
        "Layout shifts": [Row(what, "", each[1], bar=0) for what, each in pages.items()],
        "CPU of the server, a page": [_row(what, "ms", each[2], None) for what, each in pages.items()],
        "Windows of the table": [_row(what, "ms", each, _WINDOW_BAR_MS) for what, each in windows.items()],
    }
    judged = [Table(title, [row.judged(unless=quick) for row in rows]) for title, rows in tables.items()]
    return Section("console", prose(_METHOD), judged)


def _row(what: str, unit: str, values: Sequence[float], bar: float | None) -> Row:
    return Row(what, unit, list(values), bar=bar, note=f"p90 {percentile(values, 0.9):.0f} {unit}")


def _addresses(workload: Workload) -> Mapping[str, list[str]]:
    """By page: below /console, others each time."""
    drawn = workload.questions(_WINDOWS, seed=7)
    topics, principals = [each.resource_name for each in drawn], [each.principal for each in drawn]
    return {
        "Ask": [""] * len(drawn),
        "Ask, with a question": [
            "?" + urlencode({"q": f"{each.principal} READ topic:{each.resource_name} from {each.address}"})
            for each in drawn
        ],
        "ACLs": ["/acls"] * len(drawn),
        "ACLs of a principal": ["/acls?" + urlencode({"principal": each}) for each in principals],
        "ACLs that cover a topic": [
            "/acls?" + urlencode({"resource_type": "TOPIC", "resource_name": each, "pattern_type": "MATCH"})
            for each in topics
        ],
        "ACLs of an operation": ["/acls?operation=WRITE"] * len(drawn),
        "Create": ["/create"] * len(drawn),
        "Resources": ["/resource"] * len(drawn),
        "a resource": ["/resource?" + urlencode({"type": "TOPIC", "name": each}) for each in topics],
        "Principals": ["/principal"] * len(drawn),
        "a principal": ["/principal?" + urlencode({"principal": each}) for each in principals],
        "a principal, as a tree": [
            "/principal?" + urlencode({"principal": each, "view": "tree"}) for each in principals
        ],
        "History": ["/history"] * len(drawn),
        "History of a principal": ["/history?" + urlencode({"principal": each}) for each in principals],
        "Hygiene": ["/hygiene"] * len(drawn),
        "State": ["/state"] * len(drawn),
    }


def _pages(
    replica: Served, addresses: Mapping[str, Sequence[str]], folder: Path, rounds: int
) -> Mapping[str, tuple[list[float], list[float], list[float]]]:
    """By page: first paints in ms, layout shifts, and CPU of the server in ms."""
    home = f"http://127.0.0.1:{replica.port}/console"
    found: dict[str, tuple[list[float], list[float], list[float]]] = {}
    with Page(home, folder, width=_WIDTH) as page:
        for what, asked in addresses.items():
            paints, shifts, cpu = found.setdefault(what, ([], [], []))
            for each in asked[:rounds]:
                page.go("about:blank")
                before = cpu_s(replica.pid)
                page.go(home + each)
                paint, shift = page.ask(_SEEN)
                paints.append(paint)
                shifts.append(shift)
                cpu.append((cpu_s(replica.pid) - before) * 1_000)
    return found


def _windows(replica: Served, addresses: Mapping[str, Sequence[str]], count: int) -> Mapping[str, list[float]]:
    """Milliseconds of each window."""
    found: dict[str, list[float]] = {}
    with connect(replica.port) as connection:
        for what in ("ACLs", "ACLs of a principal", "ACLs that cover a topic", "ACLs of an operation"):
            times = found.setdefault(what, [])
            for each in addresses[what][:count]:
                head = f"GET /console{each} HTTP/1.1\r\nHost: 127.0.0.1\r\nHX-Request: true\r\n\r\n"
                times.append(ask(connection, head.encode())[0] * 1_000)
                time.sleep(0.005)
    return found
