// Nodes from data: text becomes text nodes, never markup.

/** Make an element. Attributes: `class`, `on<event>`, `data`, else by name; children are nodes or text. */
function h(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name === "data") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  fill(node, children);
  return node;
}

/** Append children to a node; absent ones are left out, lists are flattened. */
function fill(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) fill(node, child);
    else node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/** Replace what a node holds. */
function put(node, ...children) {
  node.replaceChildren();
  return fill(node, children);
}

/** Make a `<details>` whose content is built when it is first opened. */
function fold(summary, build, options = {}) {
  const body = h("div", { class: "fold-body" });
  const node = h("details", { class: options.class || "fold", data: options.data }, h("summary", {}, summary), body);
  let built = false;
  const ensure = () => {
    if (built) return;
    built = true;
    fill(body, [build()]);
  };
  node.addEventListener("toggle", () => node.open && ensure());
  if (options.open) {
    ensure();
    node.open = true;
  }
  return node;
}

/** Make a table that scrolls sideways in its own frame and can be focused to do so. */
function table(caption, heads, rows, options = {}) {
  const row = (cells) => h("tr", {}, cells);
  return h(
    "div",
    { class: "frame", tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      { class: options.class },
      h("caption", { class: options.caption ? "" : "hidden" }, caption),
      h("thead", {}, row(heads.map((head) => (head instanceof Node ? head : h("th", { scope: "col" }, head))))),
      h("tbody", {}, rows.map((cells) => (cells instanceof Node ? cells : row(cells)))),
    ),
  );
}

const th = (text, attributes) => h("th", { scope: "col", ...attributes }, text);
const left = (...children) => h("td", {}, children);
const right = (...children) => h("td", { class: "num" }, children);
const rowHead = (...children) => h("th", { scope: "row" }, children);
