"use strict";
(function () {
  const data = JSON.parse(document.getElementById("lookup-data").textContent);
  const text = (place) => data.texts[place];
  const box = document.getElementById("find");
  const list = document.getElementById("found");
  const answer = document.getElementById("answer");
  const MOST_SHOWN = 12;
  const MOST_LETTERS = 60;
  const WORDS = { TOPIC: "topic", GROUP: "group", TRANSACTIONAL_ID: "transactional id" };

  const entries = data.resources.map((row) => ({ kind: text(row[0]), name: row[1], row }));
  for (const row of data.principals) entries.push({ kind: "PRINCIPAL", name: text(row[0]), row });
  for (const each of entries) each.folded = each.name.toLowerCase();
  const principals = new Map(entries.filter((each) => each.kind === "PRINCIPAL").map((each) => [each.name, each]));

  function make(tag, content, className) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    for (const each of [].concat(content || [])) element.append(each);
    return element;
  }

  // A name as it is, in a direction of its own.
  const named = (name) => make("bdi", name);
  const word = (kind) => WORDS[kind] || kind.toLowerCase();

  function matches(asked) {
    const wanted = asked.trim().toLowerCase();
    if (!wanted) return { whole: [], all: [] };
    const ranked = [[], [], []];
    for (const each of entries) {
      const at = each.folded.indexOf(wanted);
      const bare = each.kind === "PRINCIPAL" && each.folded.indexOf(":" + wanted) >= 0;
      if (at < 0) continue;
      const isWhole = each.folded.length === wanted.length || (bare && each.folded.endsWith(":" + wanted));
      ranked[isWhole ? 0 : at === 0 || bare ? 1 : 2].push(each);
    }
    return { whole: ranked[0], all: ranked.flat() };
  }

  function time(seconds) {
    if (seconds === null) return data.logged ? "not in the log" : "no decision was ingested";
    return new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC";
  }

  function facts(pairs) {
    const made = make("dl", [], "facts");
    for (const [name, value] of pairs) made.append(make("dt", name), make("dd", value));
    return made;
  }

  // Head and tail of a long name: many begin alike.
  function shortened(name) {
    const each = Array.from(name);
    return each.length <= MOST_LETTERS ? name : each.slice(0, MOST_LETTERS / 2).join("") + "…" + each.slice(1 - MOST_LETTERS / 2).join("");
  }

  function pick(entry, kind) {
    const button = make("button", [kind ? make("span", kind + " ", "kind") : "", named(shortened(entry.name))], "pick");
    button.type = "button";
    button.addEventListener("click", () => {
      show(entry);
      answer.scrollIntoView({ block: "nearest" });
    });
    return button;
  }

  function people(counted, none) {
    const [count, ...first] = counted;
    if (!count) return none;
    const made = make("ul", [], "names");
    for (const place of first) {
      const known = principals.get(text(place));
      made.append(make("li", known ? pick(known) : named(text(place))));
    }
    if (count > first.length) made.append(make("li", "and " + (count - first.length).toLocaleString("en") + " more"));
    return made;
  }

  const quoted = (each) => "'" + each.replaceAll("'", "'\\''") + "'";

  // What can't be seen in a name is spelled out here, so a command with that name would be about another one.
  function command(job, name, prefix) {
    if (name.includes("⟨U+")) return "";
    const code = "klamm pipeline " + job + " " + quoted((prefix || "") + name);
    const place = make("div", make("pre", make("code", code)), "command");
    withCopy(place);
    return place;
  }

  function resource(entry) {
    const [, , prefix, readers, writers, lastRead, lastWrite] = entry.row;
    const pairs = [["prefix", named(text(prefix))]];
    if (entry.kind !== "TRANSACTIONAL_ID") pairs.push(["can READ", people(readers, "nobody")], ["last read", time(lastRead)]);
    if (entry.kind !== "GROUP") pairs.push(["can WRITE", people(writers, "nobody")], ["last written", time(lastWrite)]);
    return [facts(pairs), command("who", entry.name, entry.kind.toLowerCase() + ":")];
  }

  function principal(entry) {
    const [, team, held, lastAllowed, lastDenied] = entry.row;
    const [count, ...first] = held;
    const lines = first.map((places) => {
      const [kind, pattern, name, host, allowed, denied] = places.map(text);
      const line = make("li", [word(kind) + " ", pattern === "PREFIXED" ? "prefix " : "", named(name)]);
      if (host !== "*") line.append(" from ", named(host));
      if (allowed) line.append(": " + allowed);
      if (denied) line.append(make("strong", (allowed ? "; " : ": ") + "denied " + denied));
      return line;
    });
    if (count > first.length) lines.push(make("li", "and " + (count - first.length).toLocaleString("en") + " more patterns"));
    return [
      facts([
        ["team", named(text(team))],
        ["ACLs of its own", count ? make("ul", lines, "lines") : "none"],
        ["last allowed", time(lastAllowed)],
        ["last denied", time(lastDenied)],
      ]),
      command("what", entry.name),
    ];
  }

  function show(entry) {
    const parts = entry.kind === "PRINCIPAL" ? principal(entry) : resource(entry);
    answer.replaceChildren(make("h3", [word(entry.kind) + " ", named(entry.name)]), ...parts.filter(Boolean));
    answer.hidden = false;
  }

  function find() {
    const found = matches(box.value);
    list.replaceChildren();
    answer.hidden = true;
    if (!box.value.trim()) return null;
    for (const each of found.all.slice(0, MOST_SHOWN)) list.append(make("li", pick(each, word(each.kind))));
    const more = found.all.length - MOST_SHOWN;
    if (more > 0) list.append(make("li", more.toLocaleString("en") + " more; type more of the name"));
    if (!found.all.length) list.append(make("li", "No name in this file contains that."));
    if (found.whole.length === 1 || found.all.length === 1) show(found.whole[0] || found.all[0]);
    return found.all[0] || null;
  }

  box.addEventListener("input", find);
  box.form.addEventListener("submit", (event) => {
    event.preventDefault();
    const first = find();
    if (first) show(first);
  });

  function listed(what, name, all) {
    list.append(make("li", [what + " ", named(name), all.length ? ":" : ": none in this file"], "whole"));
    for (const each of all.slice(0, MOST_SHOWN)) list.append(make("li", pick(each)));
    const more = all.length - MOST_SHOWN;
    if (more > 0) list.append(make("li", more.toLocaleString("en") + " more; type a part of the name"));
  }

  // A cell of the heat map, or a row of its table: whom and what it counts. Others are null.
  function openCell(team, prefix) {
    const kind = document.getElementById("access-question").value.split(" ")[1];
    const all = (wanted, place, isOf) => entries.filter((each) => isOf(each.kind) && text(each.row[place]) === wanted);
    box.value = "";
    find();
    if (prefix === null) list.append(make("li", "The prefixes with the least, summed up: search for them by name.", "whole"));
    else listed(word(kind) + "s with the prefix", prefix, all(prefix, 2, (each) => each === kind));
    if (team === null) list.append(make("li", "The teams with the least, summed up: search for them by name.", "whole"));
    else listed("principals of the team", team, all(team, 1, (each) => each === "PRINCIPAL"));
    document.getElementById("lookup").scrollIntoView();
    const first = list.querySelector("button");
    if (first) first.focus({ preventScroll: true });
  }
  const [teams, prefixes] = data.axes.map((places) => places.map((place) => (place === null ? null : text(place))));
  document.addEventListener("cell", (event) => openCell(teams[event.detail.row], prefixes[event.detail.column]));
  const labels = new Map([["everyone (User:*)", "everyone"]]);
  for (const row of document.querySelectorAll("#access tbody tr")) {
    const [team, prefix] = [...row.querySelectorAll("bdi")].map((each) => each.textContent);
    const button = make("button", named(team), "pick");
    button.type = "button";
    button.title = "Show the principals and resources that this row counts";
    const known = (all, label) => (all.includes(label) ? label : null);
    button.addEventListener("click", () => openCell(known(teams, labels.get(team) || team), known(prefixes, prefix)));
    row.querySelector("th").replaceChildren(button);
  }

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

  function withCopy(place) {
    const button = make("button", "Copy", "copy");
    button.type = "button";
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

  const [resources, others] = data.more;
  if (resources || others) {
    const counts = [[resources, "resources"], [others, "principals"]].filter((each) => each[0]);
    const left = counts.map((each) => each[0].toLocaleString("en") + " " + each[1]).join(" and ");
    document.getElementById("not-here").textContent =
      left + " that were used longest ago or never are left out: use klamm pipeline who or what for those.";
  }
  document.querySelectorAll(".command").forEach(withCopy);
  document.getElementById("lookup").hidden = false;
})();
