// The network: applications as layered graphs of their dependencies, and the cost tables.
import { el, many, name, natural, svg } from "./dom.js";
import { known, link } from "./feed.js";

const BOX = { w: 206, h: 58, column: 384, row: 92, lane: 40 };

/** @returns {{element: HTMLElement, update: () => void}} */
export function network() {
  const body = el("div", { class: "view" });
  const element = el("div", { class: "view" }, el("div", { class: "head" }, el("h1", {}, "Network"), el("p", { class: "sub" }, "Workloads by dependency; links state the reserved bandwidth, and the cost of the worst pair of pods with its maximum.")), body);
  let drawn = "";
  function update() {
    if (!link.live) return;
    const applications = [...known.applications], ways = [...known.ways.values()];
    const now = JSON.stringify([applications, ways]);
    if (now === drawn) return;
    drawn = now;
    if (!applications.length && !ways.length) {
      return body.replaceChildren(el("section", { class: "card" }, el("p", { class: "empty" }, "This cluster has no AppGroup and no NetworkTopology. An AppGroup states which workloads depend on each other, a NetworkTopology what traffic between zones and regions costs; ",
        el("code", {}, "trellis demo network"), " shows both.")));
    }
    body.replaceChildren(...applications.map(([key, one]) => application(key, one, ways)), ...tables(ways));
  }
  return { element, update };
}

/** The column of each workload: one more than the largest of those that depend on it. @param {string[]} names @param {any[]} dependencies @returns {Map<string, number>} */
function layers(names, dependencies) {
  /** @type {Map<string, number>} */ const found = new Map();
  /** @param {string} one @param {Set<string>} above dependencies in a circle count once @returns {number} */
  const depth = (one, above) => {
    const known = found.get(one);
    if (known !== undefined || above.has(one)) return known ?? 0;
    const users = dependencies.filter((edge) => edge.to === one && edge.from !== one).map((edge) => edge.from);
    const own = users.reduce((most, user) => Math.max(most, above.has(user) ? 0 : depth(user, new Set([...above, one])) + 1), 0);
    found.set(one, own);
    return own;
  };
  for (const one of names) depth(one, new Set());
  return found;
}

/** The items of each column from top to bottom: workloads, and lanes ("to X") where links pass to a later column. Each is near to the items that lead to it. @param {string[]} names @param {any[]} dependencies @param {Map<string, number>} layer */
function columns(names, dependencies, layer) {
  /** @type {Set<string>[]} */ const found = [];
  /** @type {Map<string, Set<string>>} the items of the column before, by item */ const sources = new Map();
  /** @param {number} column @param {string} item @param {string} [source] */
  const put = (column, item, source) => {
    (found[column] ??= new Set()).add(item);
    const those = sources.get(`${column} ${item}`) ?? new Set();
    sources.set(`${column} ${item}`, those);
    if (source !== undefined) those.add(source);
  };
  for (const one of names) put(layer.get(one) ?? 0, `at ${one}`);
  for (const { from, to } of dependencies) {
    const [first, last] = [layer.get(from) ?? 0, layer.get(to) ?? 0];
    for (let at = first + 1, source = `at ${from}`; at <= last; at++) {
      const item = at === last ? `at ${to}` : `to ${to}`;
      put(at, item, source);
      source = item;
    }
  }
  /** @type {string[][]} */ const ordered = [];
  for (const [column, items] of found.entries()) {
    const before = ordered[column - 1] ?? [];
    const mean = (/** @type {string} */ item) => {
      const those = [...sources.get(`${column} ${item}`) ?? []].map((one) => before.indexOf(one));
      return those.length ? those.reduce((sum, one) => sum + one, 0) / those.length : 0;
    };
    ordered.push([...items ?? []].map((item) => ({ item, mean: mean(item) })).sort((one, other) => one.mean - other.mean).map(({ item }) => item));
  }
  return ordered;
}

/** @param {string} key @param {any} app @param {any[]} ways */
function application(key, app, ways) {
  const names = Object.keys(app.workloads), layer = layers(names, app.dependencies);
  const dependencies = app.dependencies.filter((/** @type {any} */ one) => layer.has(one.from) && layer.has(one.to) && one.from !== one.to);
  const grid = columns(names, dependencies, layer);
  /** @type {Map<string, {x: number, y: number}>} */ const places = new Map();
  let height = 0;
  for (const [column, items] of grid.entries()) {
    let y = 12;
    for (const item of items) {
      places.set(`${column} ${item}`, { x: 12 + column * BOX.column, y });
      y += item.startsWith("at ") ? BOX.row : BOX.lane;
    }
    height = Math.max(height, y);
  }
  /** @param {string} workload */
  const boxOf = (workload) => places.get(`${layer.get(workload)} at ${workload}`) ?? { x: 0, y: 0 };
  const width = (Math.max(1, grid.length) - 1) * BOX.column + BOX.w + 24;
  /** @type {Map<string, {text: string, over: boolean, count: number, x: number, y: number, to: string, isBack: boolean}>} */ const labels = new Map();
  const edges = dependencies.map((/** @type {any} */ one) => {
    const [a, b] = [boxOf(one.from), boxOf(one.to)];
    const worst = worstCost(app.workloads[one.from], app.workloads[one.to], ways);
    const over = worst !== null && one.cost !== null && worst > one.cost;
    const isBack = b.x <= a.x;
    const drop = 26;
    let path = `M${a.x + BOX.w / 2} ${a.y + BOX.h} C${a.x + BOX.w / 2} ${a.y + BOX.h + drop} ${b.x + BOX.w / 2} ${b.y + BOX.h + drop} ${b.x + BOX.w / 2} ${b.y + BOX.h}`;
    if (!isBack) {
      let [x, y] = [a.x + BOX.w, a.y + BOX.h / 2];
      path = `M${x} ${y}`;
      for (let column = (layer.get(one.from) ?? 0) + 1; column <= (layer.get(one.to) ?? 0); column++) {
        const lane = places.get(`${column} to ${one.to}`), isLane = lane && column < (layer.get(one.to) ?? 0);
        const [x2, y2] = isLane ? [lane.x, lane.y + BOX.lane / 2 - 8] : [b.x, b.y + BOX.h / 2];
        // The link turns near its start: its label stands above its end.
        const gap = x2 - x;
        path += ` C${x + 0.35 * gap} ${y} ${x + 0.15 * gap} ${y2} ${x2} ${y2}`;
        if (isLane) path += ` H${x2 + BOX.w}`;
        [x, y] = [x2 + BOX.w, y2];
      }
    }
    // Links with one text that end at one workload share it: a label for each would cover the links.
    const text = edgeText(one, worst), id = JSON.stringify([one.to, isBack, text]);
    const label = labels.get(id);
    if (label) label.count++; else labels.set(id, { text, over, count: 1, x: isBack ? b.x + BOX.w / 2 : b.x - 10, y: isBack ? b.y + BOX.h + drop + 14 : b.y + BOX.h / 2 - 7, to: `${one.to} ${isBack}`, isBack });
    return svg("g", {}, svg("title", {}, `${one.from} to ${one.to}: ${text}`), svg("path", { class: over ? "over" : null, d: path }));
  });
  /** @type {Map<string, number>} the lines of text at each workload */ const lines = new Map();
  const texts = [...labels.values()].map(({ text, over, count, x, y, to, isBack }) => {
    const line = lines.get(to) ?? 0;
    lines.set(to, line + 1);
    return svg("text", { class: over ? "label over" : "label", x, y: y - 14 * line, "text-anchor": isBack ? "middle" : "end" }, count > 1 ? `${count} × ${text}` : text);
  });
  const picture = svg("svg", { class: "graph", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Workloads of ${key} by dependency; the tables below say the same` },
    ...edges, ...texts, ...names.map((workload) => box(workload, app.workloads[workload], boxOf(workload))));
  // Not enlarged: one workload would fill the whole width. Not much reduced either: a narrow window scrolls it.
  picture.style.maxWidth = `${width}px`;
  picture.style.minWidth = `${0.8 * width}px`;
  const rows = app.dependencies.map((/** @type {any} */ one) => [one.from, one.to, one.bandwidth ?? "–", one.cost ?? "–", worstCost(app.workloads[one.from], app.workloads[one.to], ways) ?? "–"]);
  const placed = names.map((workload) => [workload, spread(app.workloads[workload]) || "–", total(app.workloads[workload])]);
  return el("section", { class: "card" }, el("h2", {}, name(key)), el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `Graph of ${key}` }, picture),
    el("details", {}, el("summary", {}, "Dependencies and pods"), scrolled(`Dependencies of ${key}`, table(["From", "To", "Minimum bandwidth", "Maximum cost", "Worst cost"], rows)), scrolled(`Pods of ${key}`, table(["Workload", "Domains", "Pods"], placed))));
}

/** @param {string} label @param {HTMLElement} inner */
const scrolled = (label, inner) => el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label }, inner);

/** @param {Record<string, number>} parts pods by domain */
const total = (parts) => Object.values(parts).reduce((sum, count) => sum + count, 0);

/** @param {Record<string, number>} parts pods by domain */
const spread = (parts) => Object.entries(parts).sort(([a, one], [b, other]) => other - one || natural(a, b)).map(([domain, count]) => `${domain} × ${count}`).join(", ");

/** @param {string} workload @param {Record<string, number>} parts pods by domain @param {{x: number, y: number}} at */
function box(workload, parts, { x, y }) {
  const domains = Object.keys(parts), pods = total(parts);
  const where = domains.length === 1 ? domains[0] : many(domains.length, "domain");
  return svg("g", {}, svg("title", {}, pods ? `${workload}: ${spread(parts)}` : workload), svg("rect", { class: pods ? "box" : "box none", x, y, width: BOX.w, height: BOX.h, rx: 6 }),
    svg("text", { x: x + 12, y: y + 23, "font-weight": 600 }, cut(workload, 22)),
    svg("text", { class: "label", x: x + 12, y: y + 43 }, pods ? cut(`${many(pods, "pod")} in ${where}`, 27) : "no pod is placed"));
}

/** The end of a text tells names apart. @param {string} text @param {number} most */
const cut = (text, most) => (text.length > most ? `…${text.slice(1 - most)}` : text);

/** @param {any} edge @param {number | null} worst */
function edgeText(edge, worst) {
  const known = worst === null ? "–" : String(worst), limit = edge.cost ?? null;
  const cost = limit === null ? (worst === null ? "" : `cost ${known}`) : `cost ${known} ${worst !== null && worst > limit ? ">" : "≤"} ${limit}`;
  return [edge.bandwidth === null || edge.bandwidth === undefined ? "" : String(edge.bandwidth), cost].filter(Boolean).join(" · ");
}

/** The highest cost between the units of two workloads; null where none is known. @param {Record<string, number>} from @param {Record<string, number>} to @param {any[]} ways @returns {number | null} */
function worstCost(from, to, ways) {
  let worst = null;
  for (const a of Object.keys(from ?? {})) for (const b of Object.keys(to ?? {})) {
    const cost = a === b ? 0 : ways.find((way) => way.origin === a && way.destination === b)?.cost ?? null;
    if (cost !== null) worst = Math.max(worst ?? 0, cost);
  }
  return worst;
}

/** @param {any[]} ways */
function tables(ways) {
  /** @type {Map<string, any[]>} */ const apart = new Map();
  for (const way of ways) {
    const key = `${way.topology} · ${way.level.split("/").pop()}`;
    const those = apart.get(key);
    if (those) those.push(way); else apart.set(key, [way]);
  }
  return [...apart].map(([key, those]) => el("section", { class: "card" }, el("h2", {}, "Costs of ", name(key)),
    scrolled(`Costs of ${key}`, table(["From", "To", "Cost", "Bandwidth", "Allocated"], those.map((way) => [way.origin, way.destination, way.cost ?? "–", way.capacity ?? "–", way.allocated ?? "–"])))));
}

/** @param {string[]} titles @param {any[][]} rows */
function table(titles, rows) {
  return el("table", {}, el("thead", {}, el("tr", {}, ...titles.map((one, index) => el("th", { scope: "col", class: index > 1 ? "num" : null }, one)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, index) => el("td", { class: index > 1 ? "num" : null }, name(String(cell))))))));
}
