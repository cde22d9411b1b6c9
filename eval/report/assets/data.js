// The report's data: the index is unpacked at once, a question's details when it is opened.

const TOO_OLD = "This report cannot be read in this browser, which has no DecompressionStream. Chrome or Edge 80, Firefox 113, Safari 16.4 and all later ones have it.";
const DAMAGED = "This report's file is damaged or incomplete: copy it again, or build it again with make report.";

/** The value of one of the page's blocks: JSON, gzipped, in base64. */
async function unpacked(name) {
  const letters = atob(document.getElementById(name).textContent);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const INDEX = globalThis.DecompressionStream ? await unpacked("index").catch(() => null) : null;
if (!INDEX) {
  put(document.getElementById("app"), h("main", {}, h("h1", {}, "memsys report"), h("p", { class: "bad", role: "alert" }, globalThis.DecompressionStream ? DAMAGED : TOO_OLD)));
  document.documentElement.dataset.ready = "unreadable";
  return;
}
const Q = INDEX.questions;
const RUNS = INDEX.runs;
const BLOCKS_KEPT = 12;

RUNS.forEach((run, number) => {
  run.number = number;
  run.row = new Int32Array(Q.id.length).fill(-1);
  run.at.forEach((question, row) => (run.row[question] = row));
  run.lost = new Set(run.failed);
});

const QUESTION_AT = new Map(Q.id.map((id, at) => [id, at]));
const dataOf = (at) => Q.groups[Q.group[at]][0];
const protocolOf = (at) => Q.groups[Q.group[at]][1];
const conversationOf = (at) => Q.groups[Q.group[at]][2];
const MANY_PROTOCOLS = new Set(Q.groups.map((group) => group[1])).size > 1;
const runById = (id) => RUNS.find((run) => run.run === id);

/** What is searched: question, reference and all answers, in lower case; made on the first search. */
let haystack = null;
function searchable(at) {
  haystack ??= Q.text.map((text, q) => {
    const answers = RUNS.map((run) => (run.row[q] < 0 ? "" : run.answer[run.row[q]] || ""));
    return [text, Q.reference[q] || "", Q.id[q], ...answers].join("\n").toLowerCase();
  });
  return haystack[at];
}

/** Every measure that has values for single questions, with its definition and how many it has. */
const MEASURES = (() => {
  const found = new Map();
  for (const run of RUNS) {
    const titles = new Map(run.measures.map((m) => [m.name, m.title]));
    for (const [name, values] of Object.entries(run.values)) {
      const known = found.get(name) || { name, title: titles.get(name) || name, n: 0 };
      known.n += values.reduce((n, value) => n + (value !== null), 0);
      found.set(name, known);
    }
  }
  return [...found.values()].filter((measure) => measure.n);
})();

/** A system's value of a measure at a question; null where it has none. */
function valueAt(run, question, measure) {
  const row = run.row[question];
  const values = run.values[measure];
  return row < 0 || !values ? null : values[row];
}

/** How a system stands at a question: absent, failed, unscored, right or wrong. */
function standing(run, question, measure, threshold) {
  const row = run.row[question];
  if (row < 0) return "absent";
  if (run.lost.has(row)) return "failed";
  const value = valueAt(run, question, measure);
  if (value === null || value === undefined) return "unscored";
  return value >= threshold ? "right" : "wrong";
}

const blocks = new Map();

/** A block's value, unpacked once while it is among the last few that were asked for. */
function block(name) {
  const found = blocks.get(name) || unpacked(name);
  blocks.delete(name);
  blocks.set(name, found);
  if (blocks.size > BLOCKS_KEPT) blocks.delete(blocks.keys().next().value);
  return found;
}

/** What a question's conversation shares, the question's own details, and the prompts' wording. */
async function details(question) {
  const group = Q.group[question];
  const [chunk, part, prompts] = await Promise.all([block(`chunk-${group}`), block(`part-${group}-${Q.part[question]}`), block("prompts")]);
  const found = part.questions[String(question)];
  const runs = Object.entries(found.runs).map(([number, at]) => [number, recordAt(part.records, at, found)]);
  return [chunk, { ...found, runs: Object.fromEntries(runs) }, prompts];
}

/** One record out of a block's fields. */
function recordAt(records, at, question) {
  const record = Object.fromEntries(Object.entries(records).map(([name, values]) => [name, values[at]]));
  const [units, scores, hits, below, total] = record.recalled;
  record.recalled = { shown: units.map((unit, i) => [i + 1, unit, scores[i], hits[i]]), below, total };
  if (record.sessions) {
    const [first, further] = record.sessions;
    const gold = new Set(question.sessions);
    record.sessions = [...first.map((session, i) => [i + 1, session]), ...further].map(([rank, session]) => [rank, session, gold.has(session)]);
  }
  return record;
}
