// Figures, breakdowns by category, cost and latency, failures.

function figuresView() {
  const figures = INDEX.figures.map((figure) =>
    h("figure", {}, figure.src ? h("img", { src: figure.src, alt: `Figure ${figure.name}`, loading: "lazy" }) : h("p", { class: "note" }, figure.note), h("figcaption", {}, figure.name)),
  );
  const none = h("p", { class: "note" }, "No figure has been written yet: figures of results/figures appear here when the report is built again.");
  return h("section", {}, h("h1", {}, "Figures"), figures.length ? h("div", { class: "figures" }, figures) : none);
}

/** Runs that may be compared: same data, same protocol. */
function runGroups() {
  const groups = new Map();
  for (const run of RUNS) {
    const name = `${run.data} · protocol ${run.protocol}`;
    groups.set(name, [...(groups.get(name) || []), run]);
  }
  return [...groups];
}

function breakdownView() {
  return h(
    "section",
    {},
    h("h1", {}, "By category"),
    h("p", { class: "note" }, "Means ×100 with 95 % intervals clustered by conversation; runs on a cut are named as such and cannot be compared with runs on all questions. A mean without an interval says why when it is pointed at: one question, or no spread among them, tells nothing of others."),
    runGroups().map(([name, runs]) => categoryBlock(name, runs)),
  );
}

function categoryBlock(name, runs) {
  const measures = new Map(runs.flatMap((run) => run.measures.filter((m) => m.mean !== null && m.mean !== undefined).map((m) => [m.name, m.title])));
  if (!measures.size) return null;
  const holder = h("div", {});
  const draw = (measure) => put(holder, categoryTable(name, runs, measure));
  const select = h("select", { onchange: () => draw(select.value) }, [...measures].map(([m, title]) => h("option", { value: m }, measureTitle(m, title))));
  const most = [...measures.keys()].sort((a, b) => scored(runs, b) - scored(runs, a))[0];
  select.value = most;
  draw(most);
  return h("article", {}, h("div", { class: "block-head" }, h("h2", {}, name), h("label", {}, "measure ", select)), holder);
}

const scored = (runs, measure) => runs.reduce((n, run) => n + ((run.measures.find((m) => m.name === measure) || {}).n || 0), 0);

function categoryTable(name, runs, measure) {
  const having = runs.filter((run) => run.measures.some((m) => m.name === measure && m.mean !== null && m.mean !== undefined));
  const categories = [...new Set(having.flatMap((run) => Object.keys(run.by_category)))];
  const rows = having.map((run) => {
    const whole = run.measures.find((m) => m.name === measure);
    const cells = categories.map((c) => barCell((run.by_category[c] || {})[measure]));
    return [rowHead(run.label, run.cut ? h("small", {}, `cut: ${run.cut}`) : null), barCell([whole.mean, whole.low, whole.high, whole.n, whole.why]), ...cells];
  });
  const definitions = new Map();
  for (const run of having) {
    const { title } = run.measures.find((m) => m.name === measure);
    definitions.set(title, [...(definitions.get(title) || []), run.label]);
  }
  const said = [...definitions].map(([title, labels]) => h("li", {}, definitions.size > 1 ? h("b", {}, `${labels.join(", ")}: `) : null, title));
  const shown = table(`${name}, ${measure}`, ["system", th("all", { class: "num" }), ...categories.map((c) => th(c, { class: "num" }))], rows, { class: "matrix" });
  return h("div", {}, shown, h("ul", { class: "note" }, said));
}

function barCell(found) {
  if (!found || found[0] === null) return right(DASH);
  const [mean, low, high, n, why] = found;
  const interval = low === null || low === undefined ? null : h("small", {}, `${percent(low, 1)} – ${percent(high, 1)}`);
  return h("td", { class: "num", title: `n = ${n}${why ? `; no interval: ${why}` : ""}` }, h("span", { class: "ours" }, percent(mean)), bar(mean), interval, h("small", {}, `n = ${count(n)}`));
}

function bar(share) {
  const inner = h("span", { class: "bar-fill" });
  inner.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return h("span", { class: "bar", "aria-hidden": "true" }, inner);
}

function costView() {
  const num = (name, title) => th(name, { class: "num", title });
  const calls = RUNS.flatMap((run) =>
    run.spending.map((row, i) => [
      i ? null : h("th", { scope: "rowgroup", rowspan: run.spending.length }, run.label, h("small", {}, run.data)),
      left(row.phase), left(row.role), left(row.models.join(", ")),
      right(count(row.calls)), right(count(row.stored)), right(count(row.prompt_tokens)), right(count(row.completion_tokens)),
      right(seconds(row.seconds)),
      h("td", { class: "num", title: row.no_usd || null }, row.usd === null ? row.no_usd : money(row.usd)),
    ]),
  );
  const times = RUNS.map((run) => {
    const t = run.latency;
    return [rowHead(run.label, h("small", {}, run.data)), right(count(run.at.length)), right(seconds(t.median)), right(seconds(t.p95)), right(t.timed ? `${seconds(t.timed_median)} (${t.timed})` : DASH), right(fixed(t.context_tokens, 0)), right(count(t.builds)), right(count(t.units)), right(seconds(t.build_seconds))];
  });
  return h(
    "section",
    {},
    h("h1", {}, "Cost and latency"),
    h("h2", {}, "Chat calls by phase and role"),
    h("p", { class: "note" }, "Money is what all calls cost at list price (configs/prices.yaml), stored ones included. Seconds are summed over calls; concurrent calls overlap."),
    calls.length ? table("Chat calls", ["system", "phase", "role", "model", num("calls"), num("of these stored"), num("tokens in"), num("tokens out"), num("seconds"), num("US$")], calls) : h("p", { class: "note" }, "No run made a chat call."),
    h("h2", {}, "Time"),
    h("p", { class: "note" }, "Seconds a question as the run saw them, many questions in flight at once. Response times to quote come from stage=timing: one question after another, stores off."),
    table("Time", ["system", num("questions"), num("median"), num("95th percentile"), num("timed median (n)"), num("context tokens (median)"), num("memories built"), num("units"), num("building")], times),
  );
}

function failuresView() {
  const errors = RUNS.flatMap((run) => run.failures.errors.map(([kind, n, example]) => [systemLink(run, "failed"), left(kind), right(count(n)), left(h("code", {}, example))]));
  const events = RUNS.filter((run) => run.failures.events.length || run.failures.schema_calls).map((run) => {
    const f = run.failures;
    const share = f.schema_calls ? `${percent(1 - f.valid / f.schema_calls, 1)} % of ${count(f.schema_calls)}` : DASH;
    return [systemLink(run, ""), right(share), left(f.events.map(([name, n]) => h("span", { class: "chip" }, `${name} `, h("b", {}, count(n)))))];
  });
  const missing = new Map();
  for (const run of RUNS) for (const [m, why] of Object.entries(run.failures.unavailable)) missing.set(`${m}: ${why}`, (missing.get(`${m}: ${why}`) || 0) + 1);
  return h(
    "section",
    {},
    h("h1", {}, "Failures"),
    h("h2", {}, "Questions, builds and judgements that failed"),
    errors.length ? table("Errors", ["system", "kind", th("how often", { class: "num" }), "for example"], errors) : h("p", { class: "good" }, "None failed."),
    h("h2", {}, "Fallbacks and invalid replies"),
    events.length ? table("Events", ["system", th("invalid JSON replies", { class: "num" }), "counted events"], events) : h("p", { class: "good" }, "None was counted."),
    missing.size ? [h("h2", {}, "Measures that could not be computed"), h("ul", {}, [...missing].map(([said, n]) => h("li", {}, `${said} (${plural(n, "run")})`)))] : null,
  );
}

function systemLink(run, result) {
  return rowHead(h("button", { class: "link", type: "button", onclick: () => go({ view: "questions", system: run.run, data: "", protocol: "", q: "", result }) }, run.label), h("small", {}, run.data));
}
