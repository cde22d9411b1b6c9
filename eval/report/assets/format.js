// Numbers and names as people read them.

const DASH = "–";

const fixed = (value, digits = 2) =>
  value === null || value === undefined ? DASH : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

const count = (value) => (value === null || value === undefined ? DASH : value.toLocaleString("en"));

const percent = (value, digits = 2) => (value === null || value === undefined ? DASH : fixed(100 * value, digits));

const signed = (value) => (value === null || value === undefined ? "" : `${value < 0 ? "−" : "+"}${fixed(Math.abs(value))}`);

function seconds(value) {
  if (value === null || value === undefined) return DASH;
  if (value > 0 && value < 0.0005) return "< 1 ms";
  if (value >= 7200) return `${fixed(value / 3600, 1)} h`;
  if (value >= 120) return `${fixed(value / 60, 1)} min`;
  return value >= 10 ? `${fixed(value, 1)} s` : value >= 0.01 || value === 0 ? `${fixed(value)} s` : `${fixed(1000 * value, 0)} ms`;
}

const money = (value) => (value === null || value === undefined ? DASH : value > 0 && value < 0.01 ? `$${fixed(value, 4)}` : `$${fixed(value)}`);

const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** A measure's short title: its definition up to the first parenthesis, with its own name. */
const measureTitle = (name, definition) => {
  const head = (definition || "").split(" (")[0];
  return head ? `${head} · ${name}` : name;
};

/** A trace's or setting's key as words. */
const words = (key) => key.replace(/_/g, " ");
