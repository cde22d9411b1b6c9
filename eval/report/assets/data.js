// The report's data: the index is read at once, a conversation's details when they are needed.

const INDEX = JSON.parse(document.getElementById("index").textContent);
const Q = INDEX.questions;
const RUNS = INDEX.runs;
const CHUNKS_KEPT = 6;

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

const chunkCache = new Map();

/** The details of the conversation that a question belongs to. */
function details(question) {
  const number = Q.group[question];
  let chunk = chunkCache.get(number);
  if (!chunk) {
    chunk = JSON.parse(document.getElementById(`chunk-${number}`).textContent);
    if (chunkCache.size >= CHUNKS_KEPT) chunkCache.delete(chunkCache.keys().next().value);
    chunkCache.set(number, chunk);
  }
  return chunk;
}
