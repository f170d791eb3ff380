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
