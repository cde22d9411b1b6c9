// One question: evidence in place, answers against the reference, and how each system got there.

const HITS = ["", "evidence session", "evidence turn"];

function questionPane(step) {
  return h("article", { class: "question", id: "question", tabindex: -1, "aria-label": "Question", data: {} });
}

/** Draw a question once its details are unpacked, unless `current()` says that another is wanted. */
async function drawQuestion(pane, at, choice, step, current) {
  const [chunk, found, prompts] = await details(at).catch(() => []);
  if (!current()) return;
  if (!found) {
    put(pane, h("p", { class: "bad empty", role: "alert" }, DAMAGED));
    return;
  }
  const all = RUNS.filter((run) => run.row[at] >= 0);
  const place = (run) => (run === choice.chosen ? 0 : (valueAt(run, at, choice.measure) ?? null) !== null ? 1 : 2);
  const runs = all.filter((run) => run === choice.chosen || !choice.hidden.has(run.run)).sort((a, b) => place(a) - place(b));
  put(
    pane,
    h(
      "header",
      {},
      h("p", { class: "muted crumbs" }, `${dataOf(at)} · ${protocolOf(at)} · ${conversationOf(at)} · `, h("a", { href: address({ ...PLACES, view: "questions", q: Q.id[at] }) }, "link to this question")),
      h("h1", {}, Q.text[at]),
      h("p", {}, Q.category[at] ? h("span", { class: "tag" }, Q.category[at]) : null, (found.flags || []).map((flag) => h("span", { class: "tag" }, flag)), h("span", { class: "to" }, [["evidence", "evidence"], ["systems", "how each system got there"]].map(([id, said]) => h("button", { type: "button", class: "link", onclick: () => jumpTo(id) }, said))), h("span", { class: "steppers" }, h("button", { type: "button", onclick: () => step(-1) }, "previous"), " ", h("button", { type: "button", onclick: () => step(1) }, "next"))),
    ),
    h("section", {}, h("h2", { id: "answers", tabindex: -1 }, "Answers"), answersTable(at, runs, choice), found.extra ? fold("More from the benchmark", () => h("dl", { class: "trace-rest" }, Object.entries(found.extra).map(([k, v]) => h("div", {}, h("dt", {}, words(k)), h("dd", {}, v))))) : null),
    h("section", {}, h("h2", { id: "evidence", tabindex: -1 }, "Evidence in place"), evidence(chunk, found)),
    h("section", {}, h("h2", { id: "systems", tabindex: -1 }, "How each system got there"), runs.map((run) => systemFold(run, { ...chunk, prompts }, found.runs[String(run.number)], at, choice, run === runs[0])), runs.length < all.length ? h("p", { class: "note" }, `${plural(all.length - runs.length, "system")} not compared: see the filters.`) : null),
  );
  pane.parentElement.scrollTop = 0;
}

function answersTable(at, runs, choice) {
  const answered = runs.some((run) => run.answer[run.row[at]] !== null);
  const has = (run, m) => (valueAt(run, at, m.name) ?? null) !== null;
  const measures = MEASURES.filter((m) => runs.some((run) => has(run, m))).sort((a, b) => (b.name === choice.measure) - (a.name === choice.measure));
  const reference = h("tr", { class: "reference" }, rowHead("reference"), answered ? left(Q.reference[at] ?? h("span", { class: "muted" }, "none")) : null, h("td", { colspan: Math.max(1, measures.length) }));
  const rows = runs.map((run) => {
    const row = run.row[at];
    const answer = run.answer[row];
    const said = run.lost.has(row) ? h("b", { class: "bad" }, "failed") : answer === null ? h("span", { class: "muted" }, "retrieved only") : answer === "" ? h("span", { class: "muted" }, "(empty)") : h("span", { class: "answer" }, answer);
    const how = standing(run, at, choice.measure, choice.threshold);
    return h(
      "tr",
      { class: how },
      rowHead(h("button", { type: "button", class: "link", onclick: () => openSystem(run) }, run.label)),
      answered ? left(said) : null,
      measures.map((m) => h("td", { class: m.name === choice.measure ? `num judged ${how}` : "num" }, percent(valueAt(run, at, m.name), 1))),
    );
  });
  const heads = ["system", answered ? "answer" : null, ...measures.map((m) => th(m.name, { class: "num", title: m.title }))];
  const alone = answered ? null : h("p", {}, h("span", { class: "muted" }, "Reference: "), Q.reference[at] ?? "none");
  return h("div", {}, alone, table("Answers and measures", heads.filter(Boolean), answered ? [reference, ...rows] : rows, { class: "answers" }));
}

function openSystem(run) {
  const node = document.querySelector(`details[data-run="${run.number}"]`);
  if (!node) return;
  node.open = true;
  node.scrollIntoView();
  node.querySelector("summary").focus({ preventScroll: true });
}

function evidence(chunk, found) {
  const named = found.turns.length ? `turns ${found.turns.join(", ")}` : found.sessions.length ? `sessions ${found.sessions.join(", ")}` : "";
  if (!named) return h("p", { class: "note" }, "The benchmark names no evidence for this question.");
  if (!found.around) return h("p", { class: "note" }, `The evidence is ${named}. Its text is not shown: ${chunk.reason}.`);
  const gold = new Set(found.turns);
  return h(
    "div",
    {},
    found.around.map(([id, spans]) => sessionExcerpt(id, chunk.sessions[id], spans, gold)),
    found.missing.length ? h("p", { class: "note" }, `Named as evidence, but not in the conversation: ${found.missing.join(", ")}.`) : null,
    found.around.length ? null : h("p", { class: "note" }, `The evidence is ${named}, which the conversation does not have.`),
  );
}

function sessionExcerpt(id, session, spans, gold) {
  const gap = (n) => (n > 0 ? h("li", { class: "gap" }, `… ${plural(n, "turn")}`) : null);
  const turns = [];
  let next = 0;
  for (const [first, last] of spans) {
    turns.push(gap(first - next));
    for (let i = first; i <= last; i++) {
      const [turn, speaker, text, caption] = session.turns[String(i)];
      const is = gold.has(turn);
      turns.push(h("li", { class: is ? "turn gold" : "turn" }, h("span", { class: "speaker" }, speaker, " ", h("small", {}, turn), is ? h("span", { class: "tag hit" }, "evidence") : null), h("span", { class: "said" }, text, caption ? h("i", { class: "caption" }, ` [image: ${caption}]`) : null)));
    }
    next = last + 1;
  }
  turns.push(gap(session.n - next));
  return h("div", { class: "excerpt" }, h("h3", {}, id, session.date ? h("span", { class: "muted" }, ` ${session.date}`) : null), h("ol", { class: "turns" }, turns));
}

function systemFold(run, chunk, found, at, choice, open) {
  const how = standing(run, at, choice.measure, choice.threshold);
  const tokens = found.calls.reduce((n, call) => n + call[4] + call[5], 0);
  const hits = [...found.recalled.shown, ...found.recalled.below].filter((row) => row[3]);
  const best = hits.find((row) => row[3] === 2) || hits[0];
  const brief = [best ? `${HITS[best[3]]} at rank ${best[0]}` : found.memory === null ? null : found.recalled.total ? "no evidence recalled" : null, found.rounds > 1 ? `${found.rounds} rounds` : null, found.calls.length ? plural(found.calls.length, "call") : null, tokens ? `${count(tokens)} tokens` : null, seconds(found.seconds)].filter(Boolean);
  const title = h("span", { class: "system-title" }, h("span", { class: `mark ${how}`, title: how }, MARKS[how] || ""), h("b", {}, run.label), h("small", {}, ` ${brief.join(" · ")}`));
  return fold(title, () => systemDetail(run, chunk, found), { open, class: "fold system-fold", data: { run: run.number } });
}

function systemDetail(run, chunk, found) {
  const units = (found.memory && chunk.units[found.memory]) || {};
  const context = {
    units,
    recalled: found.recalled.shown.map((row) => row[1]),
    chip: (id, prefix = "") => unitChip(id, units, chunk, prefix),
  };
  return h(
    "div",
    { class: "system-detail" },
    found.error ? h("p", { class: "bad" }, found.error) : null,
    h("h4", {}, "Recalled memories, in order"),
    recalledList(found, units, chunk),
    found.sessions ? [h("h4", {}, "Ranked sessions"), sessionRanks(found.sessions)] : null,
    h("h4", {}, "Trace"),
    h("div", { class: "trace" }, drawTrace(found.trace, context)),
    found.judged.length ? [h("h4", {}, "Judged"), found.judged.map(verdict)] : null,
    h("h4", {}, "Chat calls"),
    callsTable(found, chunk),
    Object.keys(found.counts).length ? h("p", {}, h("span", { class: "muted" }, "Counted: "), Object.entries(found.counts).map(([name, n]) => h("span", { class: "chip" }, `${name} `, h("b", {}, count(n))))) : null,
  );
}

function unitText(id, units, chunk) {
  const unit = units[id];
  return unit && unit[0] !== null ? chunk.texts[unit[0]] : null;
}

function unitChip(id, units, chunk, prefix) {
  const text = unitText(id, units, chunk);
  if (text === null) return h("span", { class: "chip" }, prefix, id);
  const chip = h("button", { type: "button", class: "chip", title: text, "aria-expanded": "false" }, prefix, id);
  let shown = null;
  chip.addEventListener("click", () => {
    if (shown) shown.remove();
    shown = shown ? null : h("blockquote", {}, text);
    chip.setAttribute("aria-expanded", String(Boolean(shown)));
    if (shown) chip.after(shown);
  });
  return chip;
}

function recalledList(found, units, chunk) {
  const { shown, below, total } = found.recalled;
  if (!total) return h("p", { class: "note" }, "This system lists no memories: see its trace.");
  const hits = [...shown, ...below].some((row) => row[3]);
  const item = ([rank, id, score, hit]) => {
    const unit = units[id];
    const text = unitText(id, units, chunk);
    const where = unit && unit[1].length ? `${unit[1].join(", ")}${unit[2] > unit[1].length ? ` and ${unit[2] - unit[1].length} more` : ""}` : "";
    const head = [h("span", { class: "rank" }, `${rank}.`), hits ? h("span", { class: "hit-cell" }, hit ? h("span", { class: `tag hit${hit}` }, HITS[hit]) : null) : null, h("code", {}, id), h("span", { class: "muted" }, where === id ? "" : where), h("span", { class: "score" }, typeof score === "number" ? String(score) : DASH)];
    return h("li", { class: hit ? `unit hit${hit}` : "unit" }, text === null ? h("div", { class: "unit-head" }, head) : fold(h("span", { class: "unit-head" }, head, h("span", { class: "peek" }, text)), () => h("p", { class: "unit-text" }, text), { class: "unit-fold" }));
  };
  const rest = total - shown.length - below.length;
  return h(
    "div",
    {},
    found.memory === null ? h("p", { class: "note" }, "The memory is not at hand (results/stores): texts and hits are unknown.") : null,
    h("ol", { class: "units" }, shown.map(item), below.length ? h("li", { class: "gap" }, "further hits") : null, below.map(item)),
    rest > 0 ? h("p", { class: "note" }, `${plural(rest, "memory", "memories")} further down without a hit.`) : null,
  );
}

function sessionRanks(sessions) {
  return h("p", { class: "ranks" }, sessions.map(([rank, id, gold]) => h("span", { class: gold ? "chip gold" : "chip", title: gold ? "evidence session" : null }, `${rank}. `, id, gold ? h("b", {}, " evidence") : null)));
}

function verdict(judged) {
  const scores = judged.scores ? Object.entries(judged.scores).map(([k, v]) => `${k} ${v}`).join(", ") : "no verdict";
  return h("p", {}, h("b", {}, judged.judge), ` ${scores}`, judged.model ? h("small", {}, ` by ${judged.model}`) : null, judged.error ? h("b", { class: "bad" }, ` ${judged.error}`) : null);
}

function callsTable(found, chunk) {
  if (!found.calls.length) return h("p", { class: "note" }, "None: nothing was asked of a chat model for this question.");
  const num = (name) => th(name, { class: "num" });
  const wording = h("div", {});
  const rows = found.calls.map(([phase, role, model, prompt, into, out, stored, time, valid]) => [
    left(chunk.names[phase]), left(chunk.names[role]), left(promptName(chunk.names[prompt], chunk.prompts, wording)), left(chunk.names[model]),
    right(count(into)), right(count(out)), right(seconds(time)),
    left(stored ? h("span", { class: "tag" }, "stored") : h("span", { class: "tag paid" }, "made")),
    left(valid === null ? DASH : valid ? "valid" : h("b", { class: "bad" }, "invalid")),
  ]);
  return h(
    "div",
    {},
    table("Chat calls", ["phase", "role", "prompt", "model", num("tokens in"), num("tokens out"), num("time"), "reply", "JSON"], rows, { class: "calls" }),
    wording,
    h("p", { class: "note" }, "made: asked of the model in this run; stored: taken from the reply store, with the time that it took when it was made. JSON: whether a reply that had to follow a schema did."),
  );
}

/** A prompt's name without most of its hash; a button where its wording is at hand. */
function promptName(name, prompts, place) {
  const short = name.replace(/(@[0-9a-f]{4})[0-9a-f]+$/, "$1");
  if (!(name in prompts)) return h("code", { title: `${name}: its wording is not at hand` }, short);
  const button = h("button", { type: "button", class: "link", title: `show the wording of ${name}`, "aria-expanded": "false" }, h("code", {}, short));
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") === "true";
    place.parentElement.querySelectorAll("button[aria-expanded]").forEach((other) => other.setAttribute("aria-expanded", "false"));
    button.setAttribute("aria-expanded", String(!open));
    put(place, open ? null : h("section", {}, h("h5", {}, name, h("small", {}, " the template: ${…} stands for what was filled in")), h("blockquote", {}, prompts[name])));
  });
  return button;
}
