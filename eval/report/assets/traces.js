// Traces drawn for what they are. A drawing is chosen by a trace's own shape, never by a system's
// name: `claims` returns the keys that it draws, or null. What none claims is shown as it stands.

const TRACE_VIEWS = [];
const traceView = (title, claims, draw) => TRACE_VIEWS.push({ title, claims, draw });

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const listOf = (value, test) => Array.isArray(value) && value.length > 0 && value.every(test);
const isTriple = (value) => Array.isArray(value) && value.length === 3 && value.every((part) => typeof part === "string");

/** Draw a trace; `context` knows the memories: `units`, `chip(id)`, `recalled` ids in order. */
function drawTrace(trace, context) {
  const left = new Set(Object.keys(trace));
  const parts = [];
  for (const view of TRACE_VIEWS) {
    const open = Object.fromEntries([...left].map((key) => [key, trace[key]]));
    const keys = view.claims(open, context);
    if (!keys || !keys.length) continue;
    keys.forEach((key) => left.delete(key));
    parts.push(h("section", { class: "trace-part" }, h("h5", {}, view.title), view.draw(open, context, keys)));
  }
  if (left.size) parts.push(h("dl", { class: "trace-rest" }, [...left].map((key) => h("div", {}, h("dt", {}, words(key)), h("dd", {}, anyValue(trace[key], context))))));
  return parts.length ? parts : h("p", { class: "note" }, "This system left no trace.");
}

/** Any JSON value, readable. */
function anyValue(value, context, depth = 0) {
  if (value === null || value === undefined || value === "") return h("span", { class: "muted" }, DASH);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return Number.isInteger(value) ? count(value) : String(value);
  if (typeof value === "string") return value in context.units ? context.chip(value) : value.length > 90 ? h("blockquote", {}, value) : value;
  if (depth > 3) return h("code", {}, JSON.stringify(value));
  if (Array.isArray(value)) {
    if (!value.length) return h("span", { class: "muted" }, "none");
    if (value.every((v) => typeof v !== "object" && String(v).length < 60)) return value.map((v) => (v in context.units ? context.chip(v) : h("span", { class: "chip" }, String(v))));
    return h("ol", {}, value.map((v) => h("li", {}, anyValue(v, context, depth + 1))));
  }
  return h("dl", { class: "trace-rest" }, Object.entries(value).map(([k, v]) => h("div", {}, h("dt", {}, words(k)), h("dd", {}, anyValue(v, context, depth + 1)))));
}

const keywordsText = (keywords) => keywords.join(" ∧ ");
const KEYWORD_FACTS = ["query_keywords", "keywords_fallback", "vocabulary", "vocabulary_shown"];

traceView(
  "Keyword pyramid",
  (t) => (listOf(t.path, (g) => isObject(g) && Array.isArray(g.keywords) && "level" in g) ? ["path", ...KEYWORD_FACTS.filter((k) => k in t)] : null),
  (t) => {
    const readIn = new Map((Array.isArray(t.rounds) ? t.rounds : []).map((round) => [keywordsText(round.keywords || []), round.round]));
    const levels = [...new Set(t.path.map((g) => g.level))].sort((a, b) => b - a);
    const group = (g) => {
      const round = readIn.get(keywordsText(g.keywords));
      const kind = round ? "read" : g.new ? "fresh" : "spent";
      return h("li", { class: `pyramid-group ${kind}`, title: `${plural(g.size, "memory", "memories")} with all of these keywords, ${count(g.new)} new` }, h("span", {}, keywordsText(g.keywords)), h("small", {}, `${g.size} · +${g.new}`), round ? h("b", {}, `round ${round}`) : null);
    };
    return h(
      "div",
      {},
      "query_keywords" in t ? h("p", {}, "Question keywords, by rank: ", t.query_keywords.map((k) => h("span", { class: "chip" }, k)), t.keywords_fallback ? h("b", { class: "bad" }, " fallback") : null, "vocabulary" in t ? h("small", {}, ` chosen from ${count(t.vocabulary_shown ?? t.vocabulary)} of ${count(t.vocabulary)} known keywords`) : null) : null,
      h("div", { class: "pyramid" }, levels.map((level) => h("div", { class: "pyramid-level" }, h("span", { class: "muted" }, plural(level, "keyword")), h("ul", {}, t.path.filter((g) => g.level === level).map(group))))),
      h("p", { class: "note" }, "Beside a group: how many memories hold all its keywords, and how many of them no earlier group held. A group that was read carries its round; a dashed one had nothing new."),
    );
  },
);

traceView(
  "Rounds",
  (t) => (listOf(t.rounds, (r) => isObject(r) && ("answer" in r || "sufficient" in r)) ? ["rounds", "stop", "visited", "visited_sessions", "memory_tokens", "memory_tokens_max"].filter((k) => k in t) : null),
  (t, context) =>
    h(
      "div",
      {},
      h(
        "ol",
        { class: "steps" },
        t.rounds.map((r) =>
          h(
            "li",
            {},
            h("p", {}, h("b", {}, `Round ${r.round ?? ""}`), r.keywords ? ` ${keywordsText(r.keywords)}` : "", h("span", { class: `tag ${r.sufficient ? "yes" : "no"}` }, r.sufficient ? "sufficient" : "not sufficient"), r.fallback ? h("span", { class: "tag bad" }, "fallback") : null, "memory_tokens" in r ? h("small", {}, ` ${count(r.memory_tokens)} tokens of memory${r.cut ? `, ${count(r.cut)} cut` : ""}`) : null),
            Array.isArray(r.new) && r.new.length ? h("p", {}, "new memories: ", r.new.map((id) => context.chip(id))) : null,
            r.answer ? h("p", {}, h("span", { class: "muted" }, "answer so far: "), r.answer) : null,
            Array.isArray(r.critical_memories) && r.critical_memories.length ? h("div", {}, h("span", { class: "muted" }, "kept as critical:"), h("ul", {}, r.critical_memories.map((m) => h("li", {}, m)))) : null,
          ),
        ),
      ),
      h("p", { class: "note" }, [t.stop && `stopped: ${t.stop}`, "memory_tokens" in t && `${count(t.memory_tokens)} tokens read in all`, t.visited_sessions && `sessions visited: ${t.visited_sessions.join(", ")}`].filter(Boolean).join(" · ")),
    ),
);

traceView(
  "Routes",
  (t) => (listOf(t.steps, (s) => isObject(s) && "action" in s) ? ["steps", ...["retrievals", "evidence", "gaps"].filter((k) => k in t)] : null),
  (t, context) => {
    const retrievals = [...(Array.isArray(t.retrievals) ? t.retrievals : [])];
    const retrieval = () => {
      const r = retrievals.shift();
      return r && h("li", { class: "retrieval" }, h("p", {}, h("b", {}, "search"), ` “${r.query ?? ""}”`), h("p", {}, (r.shown || []).map((id) => context.chip(id)), Array.isArray(r.shown) && !r.shown.length ? h("span", { class: "muted" }, "nothing new") : null));
    };
    const step = (s, i) => [
      h(
        "li",
        {},
        h("p", {}, h("b", {}, `Step ${i + 1}`), h("span", { class: `tag route-${s.action}` }, s.action), s.decision && s.decision !== s.action ? h("small", {}, ` forced: the model chose ${s.decision}`) : null, "evidence" in s ? h("small", {}, `${s.decision && s.decision !== s.action ? " ·" : ""} ${plural(s.evidence, "piece")} of evidence`) : null),
        s.reasoning ? h("p", {}, s.reasoning) : null,
        s.gaps ? h("p", {}, h("span", { class: "muted" }, "still open: "), s.gaps) : null,
      ),
      s.action === "retrieve" ? retrieval() : null,
    ];
    return h("div", {}, h("ol", { class: "steps" }, retrieval(), t.steps.map(step)), Array.isArray(t.evidence) && t.evidence.length ? h("div", {}, h("span", { class: "muted" }, "evidence at the end:"), h("ul", {}, t.evidence.map((e) => h("li", {}, e)))) : null);
  },
);

traceView(
  "Linked facts",
  (t) => (listOf(t.candidates, isTriple) || listOf(t.kept, isTriple) ? ["candidates", "kept", "dense"].filter((k) => k in t) : null),
  (t) => {
    const kept = new Set((t.kept || []).map((f) => f.join("\n")));
    const fact = (f) => h("li", { class: kept.has(f.join("\n")) ? "kept" : "dropped" }, h("b", {}, f[0]), h("span", { class: "relation" }, f[1]), h("b", {}, f[2]), h("small", {}, kept.has(f.join("\n")) ? "kept" : "dropped"));
    return h("div", {}, h("ul", { class: "facts" }, (t.candidates || t.kept).map(fact)), t.dense ? h("p", { class: "note" }, "No fact was kept: passages were ranked by similarity alone.") : null);
  },
);

traceView(
  "Nodes by layer",
  (t, context) => (listOf(t.layers, Number.isInteger) && t.layers.length <= context.recalled.length ? ["layers"] : null),
  (t, context) => {
    const layers = [...new Set(t.layers)].sort((a, b) => b - a);
    return h("div", { class: "pyramid" }, layers.map((layer) => h("div", { class: "pyramid-level" }, h("span", { class: "muted" }, layer ? `layer ${layer}` : "leaves"), h("div", {}, t.layers.map((l, i) => (l === layer ? context.chip(context.recalled[i], `${i + 1}. `) : null))))));
  },
);

traceView(
  "Weights by granularity",
  (t) => (isObject(t.weights) && isObject(t.entropies) && Object.keys(t.weights).length && Object.keys(t.weights).every((k) => typeof t.weights[k] === "number" && typeof t.entropies[k] === "number") ? ["weights", "entropies"] : null),
  (t) => {
    const most = Math.max(1e-12, ...Object.values(t.weights));
    const num = (name) => th(name, { class: "num" });
    const rows = Object.keys(t.weights).map((name) => [rowHead(name), right(fixed(t.entropies[name], 4)), right(fixed(t.weights[name], 4)), left(bar(t.weights[name] / most))]);
    return h("div", {}, table("Weights by granularity", ["", num("entropy"), num("weight"), ""], rows), h("p", { class: "note" }, "The lower a granularity's entropy, the more surely it singles out a memory, and the more it weighs."));
  },
);

traceView(
  "Weights",
  (t) => {
    const keys = Object.keys(t).filter((k) => isObject(t[k]) && Object.keys(t[k]).length && Object.values(t[k]).every((v) => typeof v === "number"));
    return keys.length ? keys : null;
  },
  (t, context, keys) =>
    h(
      "div",
      { class: "weights" },
      keys.map((key) => {
        const most = Math.max(1e-12, ...Object.values(t[key]).map(Math.abs));
        return h("table", {}, h("caption", {}, words(key)), h("tbody", {}, Object.entries(t[key]).map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "num" }, Number.isInteger(value) ? count(value) : fixed(value, 4)), h("td", {}, bar(Math.abs(value) / most))))));
      }),
    ),
);

traceView(
  "Memories named",
  (t, context) => {
    const keys = Object.keys(t).filter((k) => listOf(t[k], (v) => typeof v === "string") && t[k].some((v) => v in context.units));
    return keys.length ? keys : null;
  },
  (t, context, keys) => h("dl", { class: "trace-rest" }, keys.map((key) => h("div", {}, h("dt", {}, words(key), h("small", {}, ` ${t[key].length}`)), h("dd", {}, t[key].map((id) => context.chip(id)))))),
);
