"use strict";
// The table: rows that came with a change light up. Without script, the page is the same, and stands still.
(() => {
  const frame = document.getElementById("window");
  if (!frame) return;
  const ids = () => new Set([...frame.querySelectorAll("[data-acl]")].map((row) => row.dataset.acl));
  let known = ids();
  document.body.addEventListener("htmx:after:swap", () => {
    const before = known;
    known = ids();
    for (const row of frame.querySelectorAll("[data-acl]"))
      if (!before.has(row.dataset.acl)) row.classList.add("new");
  });
})();

// The chart: counters become rates.
(() => {
  const place = document.getElementById("chart");
  if (!place || typeof uPlot === "undefined") return;
  const KEPT = 300;
  const EVERY_MS = 2000;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const data = [[], [], []];
  let last = null;
  const width = () => place.clientWidth;
  const axis = () => ({ stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } });
  const series = (label, name) => ({ label, stroke: colour(name), width: 1.5, points: { show: false } });
  const chart = new uPlot({
    width: width(), height: 200, cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
    axes: [axis(), axis()],
    series: [{}, series("allowed", "--yes"), series("denied", "--no")],
  }, data, place);
  const look = async () => {
    try {
      const reply = await fetch(place.dataset.source, { headers: { accept: "application/json" } });
      if (!reply.ok) throw new Error(reply.status);
      const totals = await reply.json();
      const now = Date.now() / 1000;
      if (last) {
        const seconds = now - last.now;
        const rate = (name) => Math.max(0, totals[name] - last.totals[name]) / seconds;
        [now, rate("allowed"), rate("denied")].forEach((value, at) => {
          data[at].push(value);
          if (data[at].length > KEPT) data[at].shift();
        });
        chart.setData(data);
        document.getElementById("now").textContent = "";
      }
      last = { now, totals };
    } catch {
      document.getElementById("now").textContent = "The service does not answer; trying again.";
      last = null;
    }
    setTimeout(look, EVERY_MS);
  };
  addEventListener("resize", () => chart.setSize({ width: width(), height: 200 }));
  look();
})();

// The slider over a resource's past: says where the thumb is, and shows that state. Without script, a button does.
(() => {
  const WAIT_MS = 200;
  let waiting = 0;
  let asking = new AbortController();
  const of = (event) => (event.target.id === "stop" ? event.target : null);
  const show = async (range) => {
    const { form } = range;
    const address = `${form.action}?${new URLSearchParams(new FormData(form))}`;
    try {
      const reply = await fetch(address, { signal: asking.signal });
      const main = new DOMParser().parseFromString(await reply.text(), "text/html").querySelector("main");
      if (!main.querySelector("#stop")) throw new Error(reply.status);
      const top = range.getBoundingClientRect().top;
      const isHeld = document.activeElement === range;
      document.querySelector("main").replaceWith(main);
      const next = document.getElementById("stop");
      // It stays where the pointer is.
      scrollBy(0, next.getBoundingClientRect().top - top);
      if (isHeld) next.focus({ preventScroll: true });
      history.replaceState(null, "", reply.url);
    } catch (fault) {
      if (fault.name !== "AbortError") form.submit();
    }
  };
  document.addEventListener("input", (event) => {
    const range = of(event);
    if (!range) return;
    clearTimeout(waiting);
    asking.abort();
    const stop = [...document.querySelectorAll(".stops a")].at(-1 - range.value);
    range.form.querySelector("output").replaceChildren(...stop.cloneNode(true).childNodes);
    range.setAttribute("aria-valuetext", stop.textContent.trim());
  });
  document.addEventListener("change", (event) => {
    const range = of(event);
    if (!range) return;
    asking = new AbortController();
    waiting = setTimeout(show, WAIT_MS, range);
  });
})();

// The form for ACLs: its address holds what has been typed, so that it can be sent, and Back leads to it.
(() => {
  const MAX_ADDRESS = 6000;
  const form = document.getElementById("fields");
  if (!form) return;
  const keep = () => {
    const typed = new URLSearchParams();
    for (const [name, value] of new FormData(form))
      if (value && !["form_token", "back"].includes(name)) typed.append(name, value);
    const address = `${form.action}?${typed}`;
    if (address.length <= MAX_ADDRESS) history.replaceState(null, "", address);
  };
  for (const kind of ["change", "submit"]) form.addEventListener(kind, keep);
})();
