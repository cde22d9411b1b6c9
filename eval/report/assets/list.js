// The list of questions: only the rows in sight exist.

const ROW = 58; // pixels, as in the style sheet
const MARKS = { right: "●", wrong: "○", failed: "×", unscored: "·" };

/** The list; `show(choice, places)` fills it, `open(at)` is called when a question is chosen. */
function questionList(open) {
  const rows = h("div", { class: "rows" });
  const box = h("div", { class: "list-box", id: "list", tabindex: 0, role: "listbox", "aria-label": "Questions" }, rows);
  const status = h("p", { class: "list-status", role: "status" });
  let places = [];
  let choice = null;
  let runs = [];
  let current = -1; // the row of the question that is open

  const draw = () => {
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 4);
    const last = Math.min(places.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + 4);
    rows.style.height = `${places.length * ROW}px`;
    put(rows, Array.from({ length: Math.max(0, last - first) }, (_, i) => row(first + i)));
    if (current >= first && current < last) box.setAttribute("aria-activedescendant", `row-${current}`);
    else box.removeAttribute("aria-activedescendant");
  };

  const row = (at) => {
    const question = places[at];
    const asked = runs.filter((run) => run.row[question] >= 0);
    const node = h(
      "div",
      { class: at === current ? "row current" : "row", id: `row-${at}`, role: "option", "aria-selected": String(at === current), "aria-setsize": places.length, "aria-posinset": at + 1, onclick: () => choose(at, false) },
      h("span", { class: "row-text" }, Q.text[question]),
      h("span", { class: "row-about" }, h("span", { class: "tag" }, Q.category[question] || "question"), h("span", { class: "muted" }, MANY_PROTOCOLS ? ` ${conversationOf(question)} · ${protocolOf(question)} ` : ` ${conversationOf(question)} `), h("span", { class: "marks" }, asked.map((run) => mark(run, question)))),
    );
    node.style.top = `${at * ROW}px`;
    return node;
  };

  const mark = (run, question) => {
    const how = standing(run, question, choice.measure, choice.threshold);
    const value = valueAt(run, question, choice.measure);
    const kind = run === choice.chosen ? `mark ${how} chosen` : `mark ${how}`;
    return h("span", { class: kind, title: `${run.label}: ${how}${value === null || value === undefined ? "" : ` (${percent(value)})`}` }, MARKS[how] || "");
  };

  const choose = (at, quiet) => {
    if (at < 0 || at >= places.length) return;
    current = at;
    reveal();
    draw();
    open(places[at], quiet);
  };

  const reveal = () => {
    if (current < 0) return;
    const top = current * ROW;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight;
  };

  const page = () => Math.max(1, Math.floor(box.clientHeight / ROW) - 1);
  const steps = { ArrowDown: () => current + 1, ArrowUp: () => current - 1, j: () => current + 1, k: () => current - 1, PageDown: () => Math.min(places.length - 1, current + page()), PageUp: () => Math.max(0, current - page()), Home: () => 0, End: () => places.length - 1 };
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = steps[event.key];
    if (step) {
      event.preventDefault();
      choose(step(), true);
    } else if (event.key === "Enter" && current >= 0) {
      event.preventDefault();
      document.getElementById("question").focus();
    }
  });
  let asked = false;
  box.addEventListener("scroll", () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  });
  new ResizeObserver(draw).observe(box);

  const show = (newChoice, newPlaces, question) => {
    choice = newChoice;
    runs = shownRuns(choice);
    if (newPlaces !== places) box.scrollTop = 0;
    places = newPlaces;
    current = places.indexOf(question);
    put(status, `${plural(places.length, "question")}${places.length < Q.id.length ? ` of ${count(Q.id.length)}` : ""}`, h("span", { class: "legend" }, " ● right ○ wrong × failed · no value"));
    rows.style.height = `${places.length * ROW}px`;
    reveal();
    draw();
  };

  return { node: h("div", { class: "list" }, status, box), box, show, step: (by) => choose(current + by, false), first: () => places[0] };
}
