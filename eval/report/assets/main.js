// The page: header, views, footer; one place where the address is read.

const VIEWS = [
  { name: "overview", title: "Overview", make: overviewView },
  { name: "figures", title: "Figures", make: figuresView },
  { name: "breakdown", title: "By category", make: breakdownView },
  { name: "cost", title: "Cost", make: costView },
  { name: "failures", title: "Failures", make: failuresView },
  { name: "questions", title: "Questions", make: questionsView },
];

function questionsView() {
  const filters = filterForm();
  const pane = questionPane();
  const holder = h("div", { class: "pane" }, pane);
  const list = questionList((at, quiet) => go({ view: "questions", q: Q.id[at] }, { replace: quiet }));
  const node = h("section", { class: "explorer" }, h("h1", { class: "hidden" }, "Questions"), filters.form, list.node, holder);
  let sieve = "";
  let places = [];
  let drawn = "";
  const update = async (route) => {
    const choice = choices(route);
    filters.update(choice);
    const key = JSON.stringify({ ...route, q: "", view: "" });
    if (key !== sieve) {
      sieve = key;
      places = passing(choice);
    }
    const at = QUESTION_AT.get(route.q) ?? -1;
    list.show(choice, places, at);
    const picture = `${at} ${route.system} ${choice.measure} ${route.at} ${route.hide}`;
    if (picture === drawn) return;
    drawn = picture;
    if (at >= 0) await drawQuestion(pane, at, choice, list.step, () => drawn === picture);
    else put(pane, h("p", { class: "note empty" }, route.q ? `This report has no question ${route.q}.` : "Choose a question: ↑ ↓ move, Enter reads it, / searches."));
  };
  return { node, update, filters, list };
}

const made = new Map();
function viewOf(name) {
  if (!made.has(name)) {
    const built = VIEWS.find((view) => view.name === name).make();
    made.set(name, built instanceof Node ? { node: built } : built);
  }
  return made.get(name);
}

const THEMES = ["system", "light", "dark"];
function themeSwitch() {
  const group = h("fieldset", { class: "theme" }, h("legend", { class: "hidden" }, "Colours"));
  const set = (theme) => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("memsys-theme", theme); } catch { /* a browser may forbid storage: the choice then lasts for this page */ }
  };
  let kept = "system";
  try { kept = localStorage.getItem("memsys-theme") || kept; } catch { /* as above */ }
  for (const theme of THEMES) {
    const radio = h("input", { type: "radio", name: "theme", value: theme, checked: theme === kept, onchange: () => set(theme) });
    group.append(h("label", {}, radio, h("span", {}, theme)));
  }
  if (THEMES.includes(kept)) set(kept);
  return group;
}

function footer() {
  const licences = INDEX.licences.map(([data, licence]) => `${data}: ${licence}`).join("; ");
  const passing = INDEX.text
    ? "This file quotes benchmark conversations. Do not publish it where a licence forbids that (LoCoMo is CC BY-NC): build it with --no-text for others."
    : "Conversation text was left out (--no-text); questions, references and answers are still the benchmark's and the models' own words.";
  return h("footer", {}, h("p", {}, `Written ${INDEX.written.replace("T", " ")} by memsys ${INDEX.version}. Values ×100 unless said otherwise.`), h("p", {}, `Data: ${licences}. ${passing}`));
}

function start() {
  const tabs = VIEWS.map((view) => h("a", { href: address({ ...PLACES, view: view.name }), data: { view: view.name } }, view.title));
  const main = h("main", { id: "main", tabindex: -1 });
  const skip = h("button", { type: "button", class: "skip", onclick: () => main.focus() }, "skip to content");
  fill(document.getElementById("app"), [skip, h("header", { class: "top" }, h("b", {}, "memsys"), h("nav", { "aria-label": "Views" }, tabs), themeSwitch()), main, footer()]);
  let shown = "";
  const render = async () => {
    const place = location.hash;
    const route = readRoute();
    const view = viewOf(route.view);
    if (shown !== route.view) {
      shown = route.view;
      document.body.dataset.view = shown;
      put(main, view.node);
      window.scrollTo(0, 0);
      for (const tab of tabs) {
        if (tab.dataset.view === shown) tab.setAttribute("aria-current", "page");
        else tab.removeAttribute("aria-current");
      }
    }
    await view.update?.(route);
    document.documentElement.dataset.shown = place;
  };
  window.addEventListener("hashchange", render);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
    event.preventDefault();
    if (shown !== "questions") {
      go({ view: "questions" });
      shown === "questions" || render();
    }
    viewOf("questions").filters.search.focus();
  });
  return render().then(() => (document.documentElement.dataset.ready = "yes"));
}

await start();
