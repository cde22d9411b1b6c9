// Where the reader is: everything that can be linked to stands in the address, after the hash.

const PLACES = { view: "", q: "", data: "", protocol: "", system: "", category: "", measure: "", at: "0.5", result: "", order: "", text: "", hide: "" };

/** Read the address; an unknown key is ignored. */
function readRoute() {
  const given = new URLSearchParams(location.hash.slice(1));
  const route = {};
  for (const [key, standard] of Object.entries(PLACES)) route[key] = given.get(key) ?? standard;
  if (!VIEWS.some((view) => view.name === route.view)) route.view = route.q ? "questions" : "overview";
  return route;
}

/** The address of a place, what is standard left out. */
function address(route) {
  const said = new URLSearchParams();
  for (const [key, standard] of Object.entries(PLACES)) {
    if (key === "view" && (route.q || route.view === "overview") && (route.view === "questions" || !route.q)) continue;
    if (route[key] !== standard) said.set(key, route[key]);
  }
  return `#${said.toString().replace(/%2F/g, "/")}`;
}

/** Go to a place; `replace` leaves no entry for the back button. */
function go(change, { replace = false } = {}) {
  const target = address({ ...readRoute(), ...change });
  if (target === (location.hash || "#")) return;
  if (replace) location.replace(target);
  else location.hash = target;
}
