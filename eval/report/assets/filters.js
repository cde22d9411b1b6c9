// The explorer's filters, and the questions that pass them.

const RESULTS = [
  ["", "any result"],
  ["right", "right", "every system right"],
  ["wrong", "wrong", "every system wrong"],
  ["failed", "failed", "some system failed"],
  ["disagree", "right here, wrong elsewhere, or the reverse", "systems disagree"],
  ["won", "right where another is wrong", null],
  ["lost", "wrong where another is right", null],
];
const ORDERS = [["", "benchmark order"], ["spread", "largest spread first"], ["worst", "lowest mean first"], ["best", "highest mean first"]];

/** The measure with most values; of a chosen system, the first that it has. */
function defaultMeasure(chosen) {
  const own = chosen && MEASURES.find((m) => chosen.values[m.name]?.some((value) => value !== null));
  return (own || [...MEASURES].sort((a, b) => b.n - a.n)[0])?.name ?? "";
}

/** The route with its defaults filled in: what the explorer shows. */
function choices(route) {
  const threshold = Number(route.at);
  const chosen = runById(route.system) || null;
  return {
    ...route,
    measure: MEASURES.some((m) => m.name === route.measure) ? route.measure : defaultMeasure(chosen),
    threshold: Number.isFinite(threshold) ? threshold : 0.5,
    hidden: new Set(route.hide ? route.hide.split(",") : []),
    chosen,
  };
}

/** The systems that the list shows and compares. */
function shownRuns(choice) {
  return RUNS.filter((run) => (!choice.data || run.data === choice.data) && (!choice.protocol || run.protocol === choice.protocol) && (run === choice.chosen || !choice.hidden.has(run.run)));
}

/** The places of the questions that pass, in order. */
function passing(choice) {
  const runs = shownRuns(choice);
  const { chosen, measure, threshold } = choice;
  const wanted = choice.text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (let at = 0; at < Q.id.length; at++) {
    if (choice.data && dataOf(at) !== choice.data) continue;
    if (choice.protocol && protocolOf(at) !== choice.protocol) continue;
    if (choice.category && Q.category[at] !== choice.category) continue;
    if (chosen && chosen.row[at] < 0) continue;
    if (wanted.length && !wanted.every((word) => searchable(at).includes(word))) continue;
    if (choice.result && !hasResult(choice.result, at, runs, chosen, measure, threshold)) continue;
    found.push(at);
  }
  return ordered(found, choice.order, runs, measure);
}

function hasResult(result, at, runs, chosen, measure, threshold) {
  const all = runs.map((run) => standing(run, at, measure, threshold));
  const right = all.includes("right");
  const wrong = all.includes("wrong");
  const mine = chosen ? standing(chosen, at, measure, threshold) : null;
  if (result === "disagree") return right && wrong && (!chosen || mine === "right" || mine === "wrong");
  if (result === "failed") return chosen ? mine === "failed" : all.includes("failed");
  if (result === "won") return chosen ? mine === "right" && wrong : right && wrong;
  if (result === "lost") return chosen ? mine === "wrong" && right : right && wrong;
  if (chosen) return mine === result;
  return result === "right" ? right && !wrong : wrong && !right;
}

function ordered(found, order, runs, measure) {
  if (!order) return found;
  const keyed = found.map((at) => {
    const values = runs.map((run) => valueAt(run, at, measure)).filter((v) => v !== null && v !== undefined);
    if (!values.length) return [at, -Infinity];
    const mean = values.reduce((sum, v) => sum + v, 0) / values.length;
    return [at, order === "spread" ? Math.max(...values) - Math.min(...values) : order === "best" ? mean : -mean];
  });
  return keyed.sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([at]) => at);
}

/** A control with its label beside it, so that its name is the label alone. */
const field = (key, label, node) => h("div", { class: `field field-${key}` }, h("label", { for: node.id }, label), node);

/** The filter form; `update(choice)` makes it show a choice. */
function filterForm() {
  const unique = (of) => [...new Set(Q.id.map((_, at) => of(at)))].sort();
  const select = (key, label, options) => {
    const node = h("select", { id: `filter-${key}`, onchange: () => go({ [key]: node.value }) }, options.map(([value, text]) => h("option", { value }, text)));
    return { node, key, field: field(key, label, node) };
  };
  const any = (name, values) => [["", name], ...values.map((v) => [v, v])];
  const many = new Set(RUNS.map((run) => run.data)).size > 1;
  const selects = [
    select("data", "Dataset", any("all datasets", unique(dataOf))),
    select("protocol", "Protocol", any("all protocols", unique(protocolOf))),
    select("system", "System", [["", "all systems"], ...RUNS.map((run) => [run.run, `${run.label}${many ? ` · ${run.data}` : ""}`])]),
    select("category", "Category", any("all categories", unique((at) => Q.category[at]))),
    select("measure", "Measure", MEASURES.map((m) => [m.name, measureTitle(m.name, m.title)])),
    select("result", "Result", RESULTS.map(([value, text]) => [value, text])),
    select("order", "Order", ORDERS),
  ];
  const threshold = h("input", { type: "number", min: 0, max: 1, step: "any", id: "filter-at", onchange: () => go({ at: threshold.value || "0.5" }) });
  let waiting = 0;
  const search = h("input", {
    type: "search", id: "filter-text", placeholder: "question, reference, answers", autocomplete: "off", spellcheck: "false",
    oninput: () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => go({ text: search.value }, { replace: true }), 120);
    },
  });
  const systems = h("fieldset", { class: "systems" });
  const summary = h("span", {});
  const shown = h("details", { class: "fold" }, h("summary", {}, summary), systems);
  const reset = h("button", { type: "button", onclick: () => go({ ...PLACES, view: "questions", q: readRoute().q }) }, "clear filters");
  const form = h(
    "form",
    { class: "filters", "aria-label": "Filters", onsubmit: (event) => event.preventDefault() },
    field("text", ["Search ", h("kbd", {}, "/")], search),
    selects.map((s) => s.field),
    field("at", "Right from", threshold),
    h("div", { class: "more" }, shown, reset),
  );
  const update = (choice) => {
    for (const { node, key } of selects) node.value = choice[key];
    if (document.activeElement !== search) search.value = choice.text;
    if (document.activeElement !== threshold) threshold.value = choice.threshold;
    const result = selects.find((s) => s.key === "result").node;
    RESULTS.forEach(([, mine, all], i) => {
      result.options[i].textContent = choice.chosen || i === 0 ? mine : all || mine;
      result.options[i].hidden = !choice.chosen && all === null;
    });
    const scope = RUNS.filter((run) => (!choice.data || run.data === choice.data) && (!choice.protocol || run.protocol === choice.protocol));
    summary.textContent = `Compare ${scope.filter((run) => !choice.hidden.has(run.run)).length} of ${plural(scope.length, "system")}`;
    const toggle = (run, on) => {
      const hidden = new Set(choice.hidden);
      if (on) hidden.delete(run.run);
      else hidden.add(run.run);
      go({ hide: [...hidden].join(",") }, { replace: true });
    };
    const all = (hide) => h("button", { type: "button", onclick: () => go({ hide: hide ? scope.map((r) => r.run).join(",") : "" }, { replace: true }) }, hide ? "none" : "all");
    const focused = document.activeElement?.dataset?.run;
    put(systems, h("legend", { class: "hidden" }, "Systems to compare"), h("div", {}, all(false), " ", all(true)), scope.map((run) => h("label", {}, h("input", { type: "checkbox", checked: !choice.hidden.has(run.run), data: { run: run.run }, onchange: (e) => toggle(run, e.target.checked) }), run.label)));
    if (focused) systems.querySelector(`[data-run="${CSS.escape(focused)}"]`)?.focus();
  };
  return { form, search, update };
}
