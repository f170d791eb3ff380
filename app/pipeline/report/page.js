"use strict";
(function () {
  const root = document.documentElement;
  let drawn = 0;

  // What goes wrong is said on the page: a chart that is missing must not look like one that is empty.
  function fault(text) {
    const place = document.getElementById("fault");
    place.hidden = false;
    place.textContent = "A chart could not be drawn (" + text + "). The table below has its numbers.";
    root.dataset.fault = text;
  }
  window.addEventListener("error", (event) => fault(String(event.message)));
  window.addEventListener("unhandledrejection", (event) => fault(String(event.reason)));
  document.addEventListener("securitypolicyviolation", (event) => {
    root.dataset.violation = event.violatedDirective + " " + event.blockedURI;
  });

  // Okabe and Ito's colours, told apart by everybody; paler on dark.
  const LIGHT = {
    ink: "#1b1f24", soft: "#57606a", line: "#e3e7ec", card: "#ffffff", hover: "#ffffff",
    roles: {
      "@total": "#0072b2", "@created": "#009e73", "@removed": "#d55e00", "@lost": "#d55e00", "@denied": "#d55e00",
      "@allowed": "#0072b2", "@kind0": "#0072b2", "@kind1": "#e69f00", "@kind2": "#d55e00", "@kind3": "#009e73",
      "@kind4": "#cc79a7",
      // On both grounds, more is stronger: away from the page's colour.
      "@heat": [[0, "#dbe9f6"], [0.25, "#a6cde4"], [0.5, "#5fa6d1"], [0.75, "#2270b4"], [1, "#08306b"]],
      "@apart": [[0, "#e4e7eb"], [1, "#e4e7eb"]],
    },
  };
  const DARK = {
    ink: "#e8ecf1", soft: "#a3afbd", line: "#303a46", card: "#181e26", hover: "#242d38",
    roles: {
      "@total": "#56b4e9", "@created": "#2cc49a", "@removed": "#ff8a3d", "@lost": "#ff8a3d", "@denied": "#ff8a3d",
      "@allowed": "#56b4e9", "@kind0": "#56b4e9", "@kind1": "#f0c040", "@kind2": "#ff8a3d", "@kind3": "#2cc49a",
      "@kind4": "#e39ac4",
      "@heat": [[0, "#1f3550"], [0.25, "#275a8c"], [0.5, "#3f8ec6"], [0.75, "#8ac7ec"], [1, "#eef8ff"]],
      "@apart": [[0, "#39424d"], [1, "#39424d"]],
    },
  };
  const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false, showTips: false };
  const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 40rem)");
  const specs = JSON.parse(document.getElementById("specs").textContent);
  let printing = false;

  function look() {
    if (printing) return LIGHT;
    const chosen = root.dataset.look;
    return chosen === "dark" || (!chosen && systemDark.matches) ? DARK : LIGHT;
  }

  function coloured(value, roles) {
    if (Array.isArray(value) || value === null || typeof value !== "object") return value;
    const copy = {};
    for (const [key, each] of Object.entries(value)) {
      copy[key] = (key === "color" || key === "colorscale") && each in roles ? roles[each] : coloured(each, roles);
    }
    return copy;
  }

  function axis(given, name, colours, short) {
    const made = {
      automargin: true, fixedrange: true, gridcolor: colours.line, linecolor: colours.line, zerolinecolor: colours.soft,
      tickfont: { color: colours.ink }, ...given,
      title: { font: { color: colours.soft, size: 12 }, standoff: 12, ...given.title },
    };
    if (narrow.matches && short && short[name]) {
      made.ticktext = short[name];
      delete made.title;
    }
    return made;
  }

  function laidOut(given, colours) {
    const made = {
      paper_bgcolor: colours.card, plot_bgcolor: colours.card, dragmode: false, margin: { l: 8, r: 12, t: 12, b: 8 },
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colours.ink },
      hoverlabel: { bgcolor: colours.hover, bordercolor: colours.soft, font: { color: colours.ink, size: 13 }, align: "left", namelength: -1 },
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", traceorder: "normal", font: { color: colours.ink } },
      ...given,
    };
    const short = given.meta && given.meta.short;
    for (const name of Object.keys(given)) {
      if (/^[xy]axis\d?$/.test(name)) made[name] = axis(given[name], name, colours, short);
    }
    delete made.meta;
    return made;
  }

  // What is drawn: of the heat map the variant that is asked for.
  function chosen(name) {
    const spec = specs[name];
    if (name !== "access") return spec;
    const question = document.getElementById("access-question").value;
    const measure = document.querySelector("input[name=access-measure]:checked").value;
    const title = spec.titles[question];
    document.getElementById("title-access").textContent = title;
    document.getElementById("chart-access").setAttribute("aria-label", title + ". The same numbers follow as a table.");
    return spec.variants[question + "|" + measure];
  }

  function traces(spec, colours) {
    return spec.data.map((each) => {
      const made = coloured(each, colours.roles);
      if (each.colorbar) {
        made.colorbar = {
          outlinewidth: 0, thickness: 12, tickfont: { color: colours.ink }, ...each.colorbar,
          title: { ...each.colorbar.title, side: "top", font: { color: colours.soft, size: 12 } },
        };
      }
      return made;
    });
  }

  function draw(name) {
    const spec = chosen(name);
    const place = document.getElementById("chart-" + name);
    const colours = look();
    if (spec.least) place.style.minWidth = spec.least + "px";
    return Plotly.react(place, traces(spec, colours), laidOut(spec.layout, colours), CONFIG).then(() => {
      drawn += 1;
      root.dataset.drawn = String(drawn);
    });
  }

  function drawAll() {
    for (const name of Object.keys(specs)) {
      try {
        draw(name);
      } catch (error) {
        fault(name + ": " + error);
      }
    }
  }

  for (const each of document.querySelectorAll("#access-question, input[name=access-measure]")) {
    each.addEventListener("change", () => draw("access"));
  }
  const theme = document.getElementById("theme");
  function choose(value) {
    if (value) root.dataset.look = value;
    else delete root.dataset.look;
    drawAll();
  }
  theme.addEventListener("change", () => choose(theme.value));
  systemDark.addEventListener("change", drawAll);
  narrow.addEventListener("change", drawAll);
  window.addEventListener("beforeprint", () => {
    printing = true;
    root.dataset.before = root.dataset.look || "";
    choose("light");
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    choose(root.dataset.before);
  });
  drawAll();

  function copied(code) {
    // Where the browser withholds its clipboard from files, the old way is left.
    const marked = window.getSelection();
    const before = marked.rangeCount ? marked.getRangeAt(0) : null;
    const range = document.createRange();
    range.selectNodeContents(code);
    marked.removeAllRanges();
    marked.addRange(range);
    const done = document.execCommand("copy");
    if (done) {
      marked.removeAllRanges();
      if (before) marked.addRange(before);
    }
    return done;
  }

  for (const place of document.querySelectorAll(".command")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      const code = place.querySelector("code");
      let done = true;
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch {
        done = copied(code);
      }
      button.textContent = done ? "Copied" : "Marked: press Ctrl-C";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    place.append(button);
  }
})();
