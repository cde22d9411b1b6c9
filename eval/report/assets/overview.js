// The overview: what was run, and the papers' tables beside ours.

function overviewView() {
  const questions = Q.id.length;
  const failed = RUNS.reduce((n, run) => n + run.failed.length, 0);
  const records = RUNS.reduce((n, run) => n + run.at.length, 0);
  const rows = RUNS.flatMap((run) => run.spending);
  const tokens = rows.reduce((n, row) => n + row.prompt_tokens + row.completion_tokens, 0);
  return h(
    "section",
    {},
    h("h1", {}, "Overview"),
    h(
      "dl",
      { class: "glance" },
      glance("runs", count(RUNS.length)),
      glance("questions", count(questions)),
      glance("records", count(records)),
      glance("failed", count(failed), failed ? "bad" : ""),
      glance("chat calls", count(rows.reduce((n, row) => n + row.calls, 0))),
      glance("tokens", count(tokens)),
    ),
    INDEX.tables.length
      ? h("nav", { class: "jumps", "aria-label": "Tables" }, INDEX.tables.map((t) => h("button", { class: "link", type: "button", onclick: () => jumpTo(`table-${t.name}-${t.profile}`) }, jumpTitle(t))))
      : h("p", { class: "note" }, "No table has been written yet: run make reproduce-table1, then build the report again."),
    INDEX.tables.map(paperTable),
    runsTable(),
    INDEX.left_out.length ? h("p", { class: "note" }, `Left out: ${INDEX.left_out.join("; ")}`) : null,
  );
}

function glance(name, value, kind) {
  return h("div", { class: kind }, h("dt", {}, name), h("dd", {}, value));
}

function jumpTo(id) {
  const target = document.getElementById(id);
  target.scrollIntoView();
  target.focus({ preventScroll: true });
}

const PAPERS = { memgas: "MemGAS", mgretrieval: "MGRetrieval", ours: "Ours" };
const tableTitle = (t) => `${PAPERS[t.paper] || t.paper || t.name}${t.number ? ` Table ${t.number}` : t.paper === "ours" ? `: ${t.name}` : ""} (${t.profile})`;

/** A table's title among the links: with its name where a number has several tables. */
const jumpTitle = (t) => (INDEX.tables.filter((other) => tableTitle(other) === tableTitle(t)).length > 1 ? tableTitle(t).replace(" (", ` ${t.name} (`) : tableTitle(t));

function paperTable(t) {
  return h(
    "article",
    { class: "paper" },
    h("h2", { id: `table-${t.name}-${t.profile}`, tabindex: -1 }, t.title, " ", h("span", { class: "tag" }, t.title.startsWith(tableTitle(t).split(" (")[0]) ? t.profile : tableTitle(t))),
    t.blocks.map((block) => tableBlock(t, block)),
    t.notes.length ? h("ul", { class: "note" }, t.notes.map((note) => h("li", {}, note))) : null,
  );
}

function tableBlock(t, block) {
  const holder = h("div", {});
  let asList = false;
  const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => show(!asList) }, "every value as a list");
  const show = (list) => {
    asList = list;
    button.setAttribute("aria-pressed", String(list));
    put(holder, list ? listTable(block) : matrixTable(block));
  };
  show(false);
  const shared = block.rows.filter((row) => row.run).map((row) => row.differ);
  const everywhere = shared.length ? shared[0].filter((d) => shared.every((differ) => differ.includes(d))) : [];
  return h(
    "section",
    { class: "block" },
    h("div", { class: "block-head" }, h("h3", {}, block.label), button),
    holder,
    h(
      "div",
      { class: "note" },
      everywhere.length ? h("p", {}, `Every row differs from the paper in: ${everywhere.join("; ")}.`) : null,
      h(
        "ul",
        {},
        rowRemarks(block, everywhere).map((said) => h("li", {}, said)),
      ),
      withoutInterval(block).map((said) => h("p", {}, said)),
      fold("What the columns mean", () => h("ul", {}, block.columns.map((c) => h("li", {}, h("b", {}, c.heading), ` ${c.definition}`)))),
    ),
  );
}

/** What holds of single rows: each thing once, with the rows that it is about. */
function rowRemarks(block, everywhere) {
  const found = new Map();
  for (const row of block.rows) {
    const cells = row.cells.filter(Boolean);
    const said = [...row.differ.filter((d) => !everywhere.includes(d)), ...cells.map((c) => c.reason), ...cells.map((c) => c.more?.remark)];
    for (const one of new Set(said.filter(Boolean))) found.set(one, [...(found.get(one) || []), row.system]);
  }
  return [...found].map(([said, rows]) => (rows.length === block.rows.length && rows.length > 1 ? `Every row: ${said}` : `${rows.join(", ")}: ${said}`));
}

/** Why cells have no interval: one sentence a reason, with the columns that it is about. */
function withoutInterval(block) {
  const found = new Map();
  for (const row of block.rows) row.cells.forEach((c, i) => c?.no_interval && found.set(c.no_interval, (found.get(c.no_interval) || new Set()).add(block.columns[i].heading)));
  return [...found].map(([why, headings]) => `No interval: ${why} (${[...headings].join(", ")}).`);
}

function systemHead(row) {
  const run = runById(row.run);
  const differ = row.differ.length ? `differs from the paper in: ${row.differ.join("; ")}` : "nothing differs from the paper";
  const name = run
    ? h("button", { class: "link", type: "button", title: `${differ}\nShow this system's questions`, onclick: () => go({ view: "questions", system: run.run, data: "", protocol: "", q: "" }) }, row.system)
    : h("span", { title: differ }, row.system);
  return rowHead(name, row.differ.length ? h("sup", { title: differ }, "≠") : null);
}

function matrixTable(block) {
  const levels = [...new Set(block.rows.flatMap((row) => row.cells.filter((c) => c && c.level).map((c) => c.level)))];
  const rows = block.rows.map((row) => {
    const cells = row.cells.filter(Boolean);
    const n = Math.max(0, ...cells.map((c) => c.n));
    const failed = Math.max(0, ...cells.map((c) => c.failed));
    const level = cells.map((c) => c.level).find(Boolean);
    return [systemHead(row), ...row.cells.map((c) => matrixCell(c, row)), right(n ? count(n) : DASH), right(failed ? h("b", { class: "bad" }, count(failed)) : DASH), levels.length > 1 ? left(h("span", { class: "tag" }, level || DASH)) : null];
  });
  const heads = ["system", ...block.columns.map((c) => th(c.heading, { class: "num", title: c.definition })), th("n", { class: "num" }), th("failed", { class: "num" }), levels.length > 1 ? "level" : null];
  return h(
    "div",
    {},
    table(`${block.label}: ours, interval, published, difference`, heads.filter(Boolean), rows, { class: "matrix" }),
    h("p", { class: "note" }, `Each cell: ours; its 95 % interval; the paper's value and our difference from it${levels.length === 1 ? `. Level of every cell: ${levels[0]}` : ""}.`),
  );
}

function matrixCell(cell, row) {
  if (!cell) return right(DASH);
  const interval = cell.low === null ? null : h("small", {}, `${fixed(cell.low)} – ${fixed(cell.high)}`);
  const published = cell.published === null ? null : h("small", { class: "published" }, `paper ${fixed(cell.published)} `, h("i", {}, signed(cell.difference)));
  const said = [cell.level && `level: ${cell.level}`, row.differ.length && `differs: ${row.differ.join("; ")}`, cell.reason, cell.no_interval && `no interval: ${cell.no_interval}`, ...Object.entries(cell.more || {}).map(([k, v]) => `${k}: ${v}`)].filter(Boolean).join("\n");
  return h("td", { class: "num", title: said || null }, h("span", { class: "ours" }, fixed(cell.value)), comparisonMark(cell), verdictMark(cell), interval, published);
}

/** ▲ or ▼: the row differs from the table's reference row by more than chance. */
function comparisonMark(cell) {
  return cell.mark ? h("span", { class: "mark", title: "differs from the reference row at 5 % (Holm over the block)" }, cell.mark) : null;
}

function verdictMark(cell) {
  return cell.verdict ? h("span", { class: `verdict ${cell.verdict}` }, cell.verdict) : null;
}

function listTable(block) {
  const rows = block.rows.flatMap((row) =>
    row.cells.map((c, i) => {
      if (!c) return null;
      const interval = c.low === null ? DASH : `${fixed(c.low)} – ${fixed(c.high)}`;
      return [systemHead(row), left(h("span", { title: block.columns[i].definition }, block.columns[i].heading)), right(fixed(c.value), comparisonMark(c)), right(interval), right(fixed(c.published)), right(signed(c.difference) || DASH), left(verdictMark(c) || DASH), left(c.level || DASH), right(c.n ? count(c.n) : DASH), left(row.differ.join("; ") || c.reason || DASH)];
    }),
  );
  const num = (name) => th(name, { class: "num" });
  return table(block.label, ["system", "measure", num("ours"), num("interval"), num("published"), num("difference"), "verdict", "level", num("n"), "settings that differ"], rows.filter(Boolean), { class: "long" });
}

function runsTable() {
  const rows = RUNS.map((run) => [
    rowHead(h("button", { class: "link", type: "button", onclick: () => go({ view: "questions", system: run.run, data: "", protocol: "", q: "" }) }, run.label)),
    left(run.data), left(run.protocol), left(run.stage), left(run.cut || "all of it"),
    right(count(run.at.length)), right(run.failed.length ? h("b", { class: "bad" }, count(run.failed.length)) : DASH),
    left(run.finished ? run.finished.slice(0, 16).replace("T", " ") : h("b", { class: "bad" }, "not finished")),
    left(fold(h("code", {}, run.run), () => h("dl", { class: "settings" }, Object.entries(run.settings).map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, v)))))),
  ]);
  return h("article", {}, h("h2", {}, "All runs in this report"), table("All runs", ["system", "data", "protocol", "stage", "cut", th("questions", { class: "num" }), th("failed", { class: "num" }), "finished (UTC)", "run and settings"], rows));
}
