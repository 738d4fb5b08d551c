// The console's script. Requests /console.json once a second, and draws the result. All texts go into the page as text, never as
// markup. Rates are differences between two replies, by the server's own clock.
"use strict";
(() => {
  const PERIOD_MS = 1000, TIMEOUT_MS = 5000, KEPT = 120, NBSP = "\u00a0", DASH = "\u2013", DOT = " \u00b7 ";
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";

  // --- words
  const text = (id, value) => { const node = $(id); if (node.textContent !== value) node.textContent = value; };
  const fixed = (n) => (n >= 100 ? Math.round(n).toString() : n >= 10 ? n.toFixed(1) : n.toFixed(2)).replace(/\.0+$/, "");
  const scaled = (n, step, units) => { let i = 0; while (n >= step * 0.9995 && i < units.length - 1) { n /= step; ++i; } return [i === 0 ? Math.round(n).toString() : fixed(n), units[i]]; };
  const count = (n) => { const [v, u] = scaled(n, 1000, ["", "k", "M", "G", "T"]); return v + u; };
  const bytes = (n) => { const [v, u] = scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]); return v + NBSP + u; };
  const percent = (f) => (f > 0 && f < 0.001 ? "<0.1" : f < 0.1 ? (f * 100).toFixed(1).replace(/\.0$/, "") : Math.round(f * 100)) + NBSP + "%";
  const plural = (n, one, many) => (n === 1 ? "1 " + one : count(n) + " " + (many || one + "s"));
  function span(ms) {
    const s = Math.max(0, Math.round(ms / 1000)), two = (a, ua, b, ub) => (b ? a + NBSP + ua + " " + b + NBSP + ub : a + NBSP + ua);
    if (ms < 1000) return Math.max(0, Math.round(ms / 100) / 10) + NBSP + "s";
    if (s < 60) return s + NBSP + "s";
    if (s < 3600) return two(Math.floor(s / 60), "min", s % 60, "s");
    if (s < 172800) return two(Math.floor(s / 3600), "h", Math.floor(s / 60) % 60, "min");
    return two(Math.floor(s / 86400), "d", Math.floor(s / 3600) % 24, "h");
  }
  function make(tag, name, words) {
    const node = document.createElement(tag);
    if (name) node.className = name;
    if (words !== undefined) node.textContent = words;
    return node;
  }

  // --- state
  let last = null, before = null, heard = 0, failures = 0, paused = false, timer = 0, pinned = null, shown = null;
  let database = Number((/[#&]db=(\d+)/.exec(location.hash) || [])[1] || 0);
  const cells = new Map(), rows = new Map(), history = { ops: [], disk: [], stall: [] };

  // --- deadlines
  const age = (birth) => (birth && last ? Math.max(0, last.now_ms - birth) : 0);
  // Returns the time by which the oldest delete of a file must be purged; 0 = no promise. After a change of the deadline the server
  // gives the due time of the oldest delete of the database; no other delete is due before it, since due times grow with births.
  function dueOf(cell) {
    const here = last.databases.find((d) => d.db === last.tree.db), deadline = last.tree.deadline_ms;
    if (!cell.o) return 0;
    if (here && here.oldest_deadline && cell.o <= here.oldest_birth) return here.oldest_deadline;
    return deadline ? Math.max(cell.o + deadline, (here && here.oldest_deadline) || 0) : 0;
  }
  // Returns the part of its time that the oldest delete of a file has used: 1 at the deadline; null if there is no deadline.
  const worn = (cell) => { const due = dueOf(cell); return due ? age(cell.o) / Math.max(1, due - cell.o) : null; };
  function owed() {
    const tree = last.tree;
    let oldest = null, tombstones = 0;
    const see = (c) => { if (c.o && (!oldest || c.o < oldest.o)) oldest = c; };
    for (const m of tree.memtables) { see(m); tombstones += m.tombstones; }
    for (const run of tree.runs) for (const c of run.cells) { see(c); tombstones += (c.t || 0) + (c.r || 0); }
    return { oldest, tombstones };
  }

  function drawVerdict() {
    const tree = last.tree;
    const say = (tone, title, words, fill, left, right) => {
      $("verdict").dataset.tone = tone;
      text("verdict-title", title); text("verdict-text", words);
      $("gauge-fill").style.clipPath = "inset(0 " + (100 - 100 * Math.min(1, fill)) + "% 0 0 round 99px)";
      text("gauge-left", left || NBSP); text("gauge-right", right || NBSP);
    };
    if (!tree) { say("idle", "Not open yet", "The database is being opened. Its pending deletes are shown after that.", 0); return; }
    const { oldest, tombstones } = owed(), deadline = tree.deadline_ms, f = oldest ? worn(oldest) : null, name = treeName((last.databases || []).find((d) => d.db === tree.db) || tree);
    const old = oldest ? age(oldest.o) : 0, left = oldest ? dueOf(oldest) - last.now_ms : 0, missed = last.missed;
    text("fact-tombstones", count(tombstones));
    text("fact-deadline", deadline ? span(deadline) : "none");
    text("fact-due", f === null ? DASH : f >= 1 ? "now" : span(left));
    text("fact-missed", count(missed.down + missed.clock + missed.disk + missed.damage + missed.load));
    $("fact-missed").title = missed.down + " while the server was down, " + missed.clock + " by a step of the clock, " +
      missed.disk + " on a full or failing disk, " + missed.damage + " in damaged files, " + missed.load + " under load";
    $("fact-missed").classList.toggle("bad", missed.load > 0);
    if (!deadline && !oldest) say("idle", "No deadline is set", "Deletes in " + name + " are hidden from readers at once, and purged from its files when merges reach them.", 0);
    else if (!oldest) say("calm", "No pending deletes", "No delete of " + name + " has left a trace in its tables or in memory.", 0, "", span(deadline) + " allowed");
    else if (f === null) say("idle", "No deadline is set", "The oldest delete of " + name + " still has traces on disk. No deadline says when they are purged.", 0, "oldest " + span(old) + " ago");
    else if (f < 0.8) say("calm", "Every delete is on time", "The oldest one of " + name + " still on disk is " + span(old) + " old. It will be purged in time.", f, span(old) + " used", "due in " + span(left));
    else if (f < 1) say("soon", "A delete is close to its deadline", "The oldest one of " + name + " has used " + percent(f) + " of its time.", f, span(old) + " used", "due in " + span(left));
    else say("late", "A delete is past its deadline", "The oldest one of " + name + " should have been purged " + span(-left) + " ago.", 1, span(old) + " used", "over by " + span(-left));
  }

  // --- the tree
  const NAME_LOG = (b) => Math.max(0, Math.log2(Math.max(b, 1) / 65536));
  function rowsOf(tree) {
    const out = [], mem = tree.memtables.filter((m) => m.entries > 0 || m.tombstones > 0);
    if (mem.length) {
      const total = mem.reduce((sum, m) => sum + m.bytes, 0);
      let x = 0;
      out.push({ key: "mem", title: "Memory", about: bytes(total), bytes: total, cells: mem.map((m, i) => {
        const w = m.bytes / total, cell = { key: "mem:" + i, mem: true, frozen: m.frozen, x0: x, x1: x + w, b: m.bytes, e: m.entries, t: m.tombstones, o: m.o };
        x += w;
        return cell;
      }) });
    }
    let level = -1;
    for (const run of tree.runs) {
      out.push({ key: "r" + run.id, title: run.level === level ? "" : "L" + run.level, about: bytes(run.bytes), bytes: run.bytes, run,
        cells: run.cells.map((c) => ({ ...c, key: run.id + ":" + c.f, run })) });
      level = run.level;
    }
    return out;
  }

  function paint(node, cell, row, height, largest) {
    const f = worn(cell), classes = ["cell"], set = (name, v) => { if (node.dataset[name] !== v) node.dataset[name] = v; };
    if (cell.mem) classes.push("mem");
    if (cell.frozen) classes.push("frozen");
    if (cell.busy) classes.push("busy");
    if (cell.o && f === null) classes.push("undated");
    if (f !== null) { classes.push("owes"); if (f >= 1) classes.push("over"); }
    if (cell.x1 - cell.x0 < 0.05) classes.push("thin");
    if (cell.x1 - cell.x0 < 0.012) classes.push("sliver");
    if (cell.key === pinned) classes.push("pinned");
    const name = classes.join(" ");
    if (node.className !== name) node.className = name;
    if (f !== null) { set("heat", String(Math.min(10, Math.floor(f * 10)))); node.style.setProperty("--left", Math.max(0, 1 - f).toFixed(3)); }
    else if ("heat" in node.dataset) delete node.dataset.heat;
    const style = (p, v) => { if (node.style[p] !== v) node.style[p] = v; };
    style("left", (cell.x0 * 100).toFixed(3) + "%");
    style("width", "calc(" + ((cell.x1 - cell.x0) * 100).toFixed(3) + "% - 1px)");
    style("height", Math.max(5, Math.round(height * (0.4 + 0.6 * Math.sqrt(cell.b / largest)))) + "px");
  }

  function drawTree() {
    const tree = last.tree, plot = $("tree"), list = tree ? rowsOf(tree) : [];
    plot.hidden = list.length === 0;
    $("empty").hidden = list.length !== 0;
    if (!list.length) {
      text("empty-title", !tree ? "The database is being opened" : "Database " + database + " is empty");
      text("empty-text", !tree ? "Its log is being read." : "It has no data and no pending deletes. What is written appears here within a second.");
      text("tree-about", "");
    } else {
      const files = tree.runs.reduce((n, r) => n + r.files, 0), drawn = tree.runs.reduce((n, r) => n + r.cells.length, 0);
      const size = tree.runs.reduce((n, r) => n + r.bytes, 0);
      text("tree-about", plural(files, "file") + DOT + plural(tree.runs.length, "run") + DOT + bytes(size) + DOT + tree.policy + (drawn < files ? DOT + "neighbours share a cell" : ""));
    }
    // The height of a row grows with the size of its run, on a scale on which a small run is visible beside a large one. The rows
    // fill the available height, up to a limit.
    const room = plot.clientHeight || 360, gap = list.length > 14 ? 2 : 6;
    const weights = list.map((r) => 1 + NAME_LOG(r.bytes) / 6), sum = weights.reduce((a, b) => a + b, 0) || 1;
    let top = 0;
    const seenRows = new Set(), seenCells = new Set();
    list.forEach((row, index) => {
      const height = Math.round(Math.max(10, Math.min(104, ((room - gap * (list.length - 1)) * weights[index]) / sum)));
      let node = rows.get(row.key);
      if (!node) {
        node = make("div", "row");
        node.setAttribute("role", "row");
        const name = make("div", "name"), lane = make("div", "lane");
        name.setAttribute("role", "rowheader");
        name.append(make("b"), make("span"));
        lane.setAttribute("role", "presentation");
        node.append(name, lane);
        plot.append(node);
        rows.set(row.key, node);
      }
      seenRows.add(row.key);
      node.style.top = top + "px"; node.style.height = height + "px"; node.style.order = index;
      node.classList.toggle("low", height < 20);
      const [title, about] = node.firstChild.children;
      title.textContent = height < 14 ? "" : row.title;
      about.textContent = height < 14 ? "" : height < 34 ? "" : row.about;
      if (plot.children[index] !== node) plot.insertBefore(node, plot.children[index] || null);
      const largest = row.cells.reduce((m, c) => Math.max(m, c.b), 1), lane = node.lastChild;
      row.cells.forEach((cell, at) => {
        let box = cells.get(cell.key);
        if (!box) {
          box = { node: make("div", "cell") };
          box.node.setAttribute("role", "gridcell");
          box.node.tabIndex = -1;
          box.node.dataset.key = cell.key;
          cells.set(cell.key, box);
        }
        if (box.node.parentNode !== lane) lane.append(box.node);
        box.cell = cell; box.row = index; box.at = at;
        seenCells.add(cell.key);
        paint(box.node, cell, row, height, largest);
      });
      top += height + gap;
    });
    for (const [key, box] of cells) {
      if (seenCells.has(key)) continue;
      cells.delete(key);
      if (document.activeElement === box.node) plot.dataset.refocus = "1";
      box.node.classList.add("gone");
      setTimeout(() => box.node.remove(), 600);
    }
    for (const [key, node] of rows) if (!seenRows.has(key)) { rows.delete(key); setTimeout(() => node.remove(), 600); node.style.pointerEvents = "none"; }
    if (!plot.querySelector(".cell[tabindex='0']")) { const first = cells.values().next().value; if (first) first.node.tabIndex = 0; }
    if (plot.dataset.refocus) { delete plot.dataset.refocus; const first = cells.values().next().value; if (first) focusOn(first); }
    drawDetail();
  }

  // --- one file
  function describe(cell) {
    const out = [], f = worn(cell);
    if (cell.mem) out.push(["Kind", cell.frozen ? "memtable, being written out" : "memtable, takes writes"]);
    else {
      out.push(["Level", "L" + cell.run.level + ", run " + cell.run.id]);
      if (cell.n > 1) out.push(["Files", count(cell.n) + ", drawn as one"]);
      out.push(["Key space", percent(cell.x0) + " to " + percent(cell.x1)]);
    }
    out.push(["Size", bytes(cell.b)], ["Entries", count(cell.e)], ["Deletes", count(cell.t || 0) + (cell.r ? " and " + plural(cell.r, "range") : "")]);
    out.push(["Oldest delete", cell.o ? span(age(cell.o)) + " ago" : "none"]);
    out.push(["Due", f === null ? (cell.o ? "no deadline" : DASH) : f >= 1 ? "overdue by " + span(last.now_ms - dueOf(cell)) : "in " + span(dueOf(cell) - last.now_ms)]);
    out.push(["Now", cell.busy ? "being merged" : "at rest"]);
    return out;
  }
  // Draws the text that is shown until the user points at something.
  function mostUrgent() {
    let found = null;
    for (const box of cells.values()) if (!found || (box.cell.o && (!found.cell.o || box.cell.o < found.cell.o))) found = box;
    return found;
  }
  const nameOf = (cell) => (cell.mem ? "Memtable" : cell.n > 1 ? plural(cell.n, "file") + " from " + cell.f : "File " + cell.f);
  function drawDetail() {
    const box = last && last.tree && (cells.get(shown) || cells.get(pinned) || mostUrgent()), list = $("detail");
    if (!box) { text("detail-title", "File"); text("detail-hint", NBSP); list.replaceChildren(); return; }
    text("detail-title", nameOf(box.cell));
    text("detail-hint", box.cell.key === pinned ? "kept; Esc releases it" : box.cell.key === shown ? "Enter keeps it" : box.cell.o ? "oldest delete" : "newest");
    const facts = describe(box.cell);
    if (list.children.length === facts.length * 2) facts.forEach(([k, v], i) => { list.children[2 * i].textContent = k; list.children[2 * i + 1].textContent = v; });
    else list.replaceChildren(...facts.flatMap(([k, v]) => [make("dt", "", k), make("dd", "", v)]));
    if (document.activeElement === box.node) label(box);
  }
  const label = (box) => box.node.setAttribute("aria-label", nameOf(box.cell) + ". " + describe(box.cell).map(([k, v]) => k + ": " + v).join(". "));
  function focusOn(box) {
    for (const other of $("tree").querySelectorAll(".cell[tabindex='0']")) other.tabIndex = -1;
    box.node.tabIndex = 0;
    label(box);
    box.node.focus({ preventScroll: true });
    box.node.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  function neighbour(box, dx, dy) {
    const all = [...cells.values()];
    if (dy === 0) return all.find((b) => b.row === box.row && b.at === box.at + dx);
    const middle = (box.cell.x0 + box.cell.x1) / 2, far = (b) => (b.cell.x0 <= middle && middle < b.cell.x1 ? -1 : Math.min(Math.abs(b.cell.x0 - middle), Math.abs(b.cell.x1 - middle)));
    return all.filter((b) => b.row === box.row + dy).sort((a, b) => far(a) - far(b))[0];
  }
  const under = (event) => { const node = event.target.closest(".cell"); return node && cells.get(node.dataset.key); };
  const look = (box) => { shown = box ? box.cell.key : null; drawDetail(); };
  const pin = (key) => { pinned = key; for (const b of cells.values()) b.node.classList.toggle("pinned", b.cell.key === pinned); drawDetail(); };
  $("tree").addEventListener("pointerover", (event) => { if (event.pointerType === "mouse") { const box = under(event); if (box) look(box); } });
  $("tree").addEventListener("pointerleave", () => look(cells.get((document.activeElement.dataset || {}).key) || null));
  $("tree").addEventListener("focusin", (event) => { const box = under(event); if (box) { label(box); look(box); } });
  $("tree").addEventListener("focusout", () => look(null));
  $("tree").addEventListener("click", (event) => { const box = under(event); if (box) { focusOn(box); look(box); pin(pinned === box.cell.key ? null : box.cell.key); } });
  $("tree").addEventListener("keydown", (event) => {
    const box = under(event), moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!box) return;
    let to = moves[event.key] && neighbour(box, ...moves[event.key]);
    if (event.key === "Home" || event.key === "End") to = [...cells.values()].filter((b) => b.row === box.row).sort((a, b) => (event.key === "Home" ? a.at - b.at : b.at - a.at))[0];
    if (event.key === "Enter" || event.key === " ") pin(pinned === box.cell.key ? null : box.cell.key);
    else if (event.key === "Escape") pin(null);
    else if (to) focusOn(to);
    else if (!moves[event.key]) return;
    event.preventDefault();
  });

  // --- figures
  function rate(name) {
    if (!before || last.uptime_ms <= before.uptime_ms || before[name] === undefined || last[name] === undefined) return null;
    return Math.max(0, ((last[name] - before[name]) * 1000) / (last.uptime_ms - before.uptime_ms));
  }
  function spark(id, values, floor) {
    const node = $(id), top = Math.max(floor, ...values.map((v) => v || 0)), w = 240, h = 48;
    const at = (i, v) => (w - (values.length - 1 - i) * (w / (KEPT - 1))).toFixed(1) + " " + (h - 1 - (v / top) * (h - 4)).toFixed(1);
    let line = "", area = "", from = null;
    values.forEach((v, i) => {
      if (v === null) { from = null; return; }
      line += (from === null ? "M" : "L") + at(i, v);
      from = i;
    });
    const first = values.findIndex((v) => v !== null);
    if (first >= 0) area = "M" + at(first, 0) + values.slice(first).map((v, i) => "L" + at(first + i, v || 0)).join("") + "L" + at(values.length - 1, 0) + "Z";
    const paths = [["base", "M0 47L240 47"], ["area", area], ["line", line]];
    paths.forEach(([name, d], i) => {
      let path = node.children[i];
      if (!path) { path = document.createElementNS(SVG, "path"); path.setAttribute("class", name); node.append(path); }
      path.setAttribute("d", d);
    });
  }
  const remember = (name, value) => { const list = history[name]; list.push(value); if (list.length > KEPT) list.shift(); };
  const or = (value, write) => (value === null || value === undefined || Number.isNaN(value) ? DASH : write(value));

  function drawFigures() {
    const ops = rate("commands"), reads = rate("gets"), writes = rate("writes");
    const wal = rate("wal_bytes_written"), flush = rate("flush_bytes_written"), merge = rate("compaction_bytes_written");
    const disk = wal === null || flush === null || merge === null ? null : wal + flush + merge;
    const gone = before && before.stalls && last.stalls && last.uptime_ms > before.uptime_ms ? (last.uptime_ms - before.uptime_ms) * 1000 : 0;
    const held = (name) => (gone && name in last.stalls ? Math.min(1, Math.max(0, (last.stalls[name] - before.stalls[name]) / gone)) : null);
    const stalls = ["memtable_us", "runs_us", "pending_us", "deadline_us"].map(held), stall = stalls[0] === null ? null : Math.min(1, stalls.reduce((a, b) => a + (b || 0), 0));
    remember("ops", ops); remember("disk", disk); remember("stall", stall);
    text("ops", or(ops, count)); text("reads", or(reads, count)); text("writes", or(writes, count)); text("clients", count(last.clients));
    text("disk-rate", or(disk, bytes)); text("rate-wal", or(wal, bytes)); text("rate-flush", or(flush, bytes)); text("rate-merge", or(merge, bytes));
    text("stall", or(stall, percent)); text("stall-memtable", or(stalls[0], percent)); text("stall-runs", or(stalls[1], percent)); text("stall-pending", or(stalls[2], percent)); text("stall-deadline", or(stalls[3], percent));
    spark("ops-spark", history.ops, 10); spark("disk-spark", history.disk, 65536); spark("stall-spark", history.stall, 0.05);
    $("stall-spark").classList.toggle("bad", history.stall.some((v) => v > 0.01));
    const total = last.user_bytes_written, ratio = (a, b) => (b > 0 ? a / b : null), times = (v) => fixed(v) + NBSP + "\u00d7";
    text("amp-write", or(total ? (last.wal_bytes_written + last.flush_bytes_written + last.compaction_bytes_written) / total : null, times));
    const here = (last.databases || []).find((d) => d.db === database);
    text("amp-space", or(here ? ratio(here.bytes, here.last_level_bytes) : null, times));
    text("amp-runs", or(here ? here.runs : null, count));
    text("amp-filter", or(ratio(last.filter_false_positives, last.filter_false_positives + last.filter_negatives), percent));
    text("amp-cache", or(ratio(last.cache_hits, last.cache_hits + last.cache_misses), percent));
  }

  function list(id, items, none, limit) {
    const shownItems = items.slice(0, limit), rest = items.length - shownItems.length, nodes = shownItems.map(([left, right, tag, late]) => {
      const li = make("li", late ? "late" : ""), name = make("span", "", left);
      if (tag) name.append(make("span", "tag" + (tag[1] ? " hot" : ""), tag[0]));
      li.append(name, make("span", "", right));
      return li;
    });
    if (!nodes.length) nodes.push(make("li", "none", none));
    if (rest > 0) nodes.push(make("li", "none", "and " + rest + " more"));
    $(id).replaceChildren(...nodes);
  }
  function drawLists() {
    const jobs = (last.tree && last.tree.jobs) || [], here = (last.databases || []).find((d) => d.db === database), tickets = last.tickets || [];
    list("jobs", jobs.map((j) => [j.kind[0].toUpperCase() + j.kind.slice(1) + " L" + j.from + (j.to === j.from ? "" : " \u2192 L" + j.to), plural(j.files, "file") + DOT + bytes(j.bytes), [j.reason.replace(/_/g, " "), j.urgent || j.reason === "deadline"]]),
      "Nothing. The tree is as its policy wants it" + (here && here.pending_bytes ? ", except for merges that wait." : "."), 4);
    text("jobs-about", here && here.pending_bytes ? bytes(here.pending_bytes) + " waiting" : "nothing waiting");
    const due = (t) => (t.done ? "done" : !t.deadline ? "no deadline" : t.deadline <= last.now_ms ? "overdue by " + span(last.now_ms - t.deadline) : "due in " + span(t.deadline - last.now_ms));
    list("tickets", tickets.map((t) => [t.id, (t.done || !t.files_left ? "" : plural(t.files_left, "file") + " left" + DOT) + due(t), null, !t.done && t.deadline && t.deadline <= last.now_ms]),
      "None is open.", 3);
    const w = last.workload, mixed = w && w.operations > 0;
    $("workload").hidden = !mixed;
    text("workload", !mixed ? "" : "Workload of the week: " + percent(w.empty_read) + " empty reads, " + percent(w.read) + " reads, " + percent(w.range) + " ranges, " + percent(w.write) + " writes." +
      (w.known ? " Divergence now " + w.divergence.toFixed(2) + ", at most " + w.rho.toFixed(2) + "." : ""));
    $("tuning").hidden = !last.tuning;
    text("tuning", last.tuning ? "Tuning: " + last.tuning + "." : "");
    text("tickets-about", last.open_tickets ? count(last.open_tickets) + " open" : "");
  }
  function drawMemory() {
    const m = last.memory;
    if (!m) return;
    const parts = [["memtables", m.memtables], ["page cache", m.cache], ["filters, indexes", m.tables], ["clients", m.clients], ["other", m.other]];
    const used = parts.reduce((n, p) => n + p[1], 0), whole = Math.max(m.budget, used, 1), stack = $("memory-stack"), key = $("memory-key");
    if (!stack.children.length) parts.forEach((p, i) => {
      stack.append(make("i", "k" + (i + 1)));
      const box = make("div"), dt = make("dt");
      dt.append(make("i", "k" + (i + 1)), p[0]);
      box.append(dt, make("dd"));
      key.append(box);
    });
    parts.forEach((p, i) => { stack.children[i].style.width = ((p[1] / whole) * 100).toFixed(2) + "%"; key.children[i].lastChild.textContent = bytes(p[1]); });
    text("memory-about", bytes(used) + " of " + bytes(m.budget));
    text("disk-about", "On disk: tables " + bytes(last.disk.tables) + ", log " + bytes(last.disk.wal) + ". Process: " + bytes(m.resident) + ".");
  }
  function treeName(d) { return d.index ? "database " + d.owner + ", index " + d.index : "database " + d.db; }
  function drawDatabases() {
    const pick = $("database"), known = new Map((last.databases || []).map((d) => [d.db, d]));
    if (!known.has(database)) known.set(database, null);
    const owner = ([db, d]) => (d && d.index ? d.owner : db), title = (db, d) => (d ? treeName(d) : "database " + db + " (empty)");
    const options = [...known].sort((a, b) => owner(a) - owner(b) || a[0] - b[0]).map(([db, d]) => [db, title(db, d).replace(/^./, (c) => c.toUpperCase())]);
    if (document.activeElement !== pick && options.map((o) => o.join()).join("|") !== [...pick.options].map((o) => o.value + "," + o.text).join("|"))
      pick.replaceChildren(...options.map(([db, name]) => new Option(name, db, false, db === database)));
    if (document.activeElement !== pick) pick.value = String(database);
  }

  // --- the server
  function state(name, words) { document.body.dataset.state = name; text("pill-text", words); }
  function drawState() {
    $("lost").hidden = true;
    text("version", last.version + DOT + "up " + span(last.uptime_ms));
    if (last.not_ready) state("warn", last.now_ms === undefined ? "Opening" : last.not_ready.length > 40 ? "Not taking writes" : last.not_ready);
    else if (last.stalls && last.stalls.stopped) state("warn", "Writes stopped");
    else state(paused ? "paused" : "live", paused ? "Paused" : "Live");
  }
  function draw() { drawDatabases(); drawVerdict(); drawTree(); drawFigures(); drawLists(); drawMemory(); drawState(); }
  function lost() {
    state("lost", "No answer");
    const node = $("lost"), when = heard ? new Date(heard).toLocaleTimeString([], { hour12: false }) : null;
    node.textContent = (when ? "The server has not answered since " + when + ". The page shows its last answer. " : "The server does not answer. ") + "Trying again.";
    node.hidden = false;
    for (const name of Object.keys(history)) if (failures === 1) remember(name, null);
  }
  async function ask() {
    clearTimeout(timer);
    const stop = new AbortController(), limit = setTimeout(() => stop.abort(), TIMEOUT_MS);
    try {
      const answer = await fetch("/console.json?db=" + database, { cache: "no-store", signal: stop.signal });
      if (answer.status === 400 && database !== 0) { database = 0; location.hash = ""; throw new Error("no such database"); }
      if (!answer.ok) throw new Error("status " + answer.status);
      const next = await answer.json();
      before = last && !failures && next.uptime_ms >= last.uptime_ms ? last : null;
      last = next; failures = 0; heard = Date.now();
      draw();
    } catch (error) {
      ++failures;
      lost();
    } finally {
      clearTimeout(limit);
      clearTimeout(timer);
      if (!paused && !document.hidden) timer = setTimeout(ask, failures ? Math.min(8000, 500 * 2 ** Math.min(failures, 4)) : PERIOD_MS);
    }
  }

  // --- switches
  $("pause").addEventListener("click", () => {
    paused = !paused;
    $("pause").setAttribute("aria-pressed", String(paused));
    text("pause", paused ? "Resume" : "Pause");
    if (paused) { clearTimeout(timer); if (!failures) state("paused", "Paused"); } else { before = null; ask(); }
  });
  $("database").addEventListener("change", (event) => { database = Number(event.target.value); location.hash = "db=" + database; pin(null); last = before = null; event.target.blur(); ask(); });
  const themes = ["auto", "dark", "light"], system = matchMedia("(prefers-color-scheme: light)");
  let theme = "auto";
  try { theme = themes.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto"; } catch (error) { /* a browser that stores nothing */ }
  function dress() {
    document.documentElement.dataset.theme = theme === "auto" ? (system.matches ? "light" : "dark") : theme;
    text("theme", { auto: "Auto", dark: "Dark", light: "Light" }[theme]);
    $("theme").setAttribute("aria-label", "Theme: " + { auto: "as the system", dark: "dark", light: "light" }[theme]);
  }
  $("theme").addEventListener("click", () => { theme = themes[(themes.indexOf(theme) + 1) % 3]; try { localStorage.setItem("theme", theme); } catch (error) { /* as above */ } dress(); });
  system.addEventListener("change", dress);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !paused) { before = null; ask(); } else clearTimeout(timer); });
  window.addEventListener("resize", () => { if (last) drawTree(); });
  dress();
  ask();
})();
