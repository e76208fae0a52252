// The network: applications as layered graphs of their dependencies, and the cost tables.
import { el, many, name, svg } from "./dom.js";
import { known, link } from "./feed.js";

const BOX = { w: 190, h: 58, column: 360, row: 92 };
const MOST_UNITS = 2;

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

/** The column of each workload: one more than the largest of those that depend on it. @param {string[]} names @param {any[]} talks @returns {Map<string, number>} */
function layers(names, talks) {
  /** @type {Map<string, number>} */ const found = new Map();
  /** @param {string} one @param {Set<string>} above dependencies in a circle count once @returns {number} */
  const depth = (one, above) => {
    const known = found.get(one);
    if (known !== undefined || above.has(one)) return known ?? 0;
    const users = talks.filter((edge) => edge.to === one && edge.from !== one).map((edge) => edge.from);
    const own = users.reduce((most, user) => Math.max(most, above.has(user) ? 0 : depth(user, new Set([...above, one])) + 1), 0);
    found.set(one, own);
    return own;
  };
  for (const one of names) depth(one, new Set());
  return found;
}

/** @param {string} key @param {any} app @param {any[]} ways */
function application(key, app, ways) {
  const names = Object.keys(app.workloads), layer = layers(names, app.talks);
  const filled = new Map();
  const boxes = new Map(names.map((workload) => {
    const column = layer.get(workload) ?? 0, row = filled.get(column) ?? 0;
    filled.set(column, row + 1);
    return [workload, { x: 12 + column * BOX.column, y: 12 + row * BOX.row }];
  }));
  const columns = Math.max(1, filled.size), width = (columns - 1) * BOX.column + BOX.w + 24, height = Math.max(1, ...filled.values()) * BOX.row + 4;
  /** @type {Map<string, {text: string, over: boolean, count: number, x: number, y: number, to: string, isBack: boolean}>} */ const labels = new Map();
  const edges = app.talks.filter((/** @type {any} */ one) => boxes.has(one.from) && boxes.has(one.to) && one.from !== one.to).map((/** @type {any} */ one) => {
    const [a, b] = [boxes.get(one.from), boxes.get(one.to)].map((each) => each ?? { x: 0, y: 0 });
    const worst = worstCost(app.workloads[one.from], app.workloads[one.to], ways);
    const over = worst !== null && one.cost !== null && worst > one.cost;
    const isBack = b.x <= a.x;
    const [x1, y1, x2, y2] = [a.x + (isBack ? BOX.w / 2 : BOX.w), a.y + (isBack ? BOX.h : BOX.h / 2), b.x + (isBack ? BOX.w / 2 : 0), b.y + (isBack ? BOX.h : BOX.h / 2)];
    const bend = isBack ? 0 : (x2 - x1) / 2, drop = isBack ? 26 : 0;
    // Links with one text that end at one workload share it: a label for each would cover the links.
    const text = edgeText(one, worst), key = JSON.stringify([one.to, isBack, text]);
    const label = labels.get(key);
    if (label) label.count++; else labels.set(key, { text, over, count: 1, x: isBack ? x2 : x2 - 10, y: y2 + (isBack ? drop + 14 : -7), to: `${one.to} ${isBack}`, isBack });
    return svg("g", {}, svg("title", {}, `${one.from} to ${one.to}: ${text}`), svg("path", { class: over ? "over" : null, d: `M${x1} ${y1} C${x1 + bend} ${y1 + drop} ${x2 - bend} ${y2 + drop} ${x2} ${y2}` }));
  });
  /** @type {Map<string, number>} the lines of text at each workload */ const lines = new Map();
  const texts = [...labels.values()].map(({ text, over, count, x, y, to, isBack }) => {
    const line = lines.get(to) ?? 0;
    lines.set(to, line + 1);
    return svg("text", { class: over ? "label over" : "label", x, y: y - 14 * line, "text-anchor": isBack ? "middle" : "end" }, count > 1 ? `${count} × ${text}` : text);
  });
  const picture = svg("svg", { class: "graph", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Workloads of ${key} by dependency; the table below says the same` },
    ...edges, ...texts, ...names.map((workload) => box(workload, app.workloads[workload], boxes.get(workload) ?? { x: 0, y: 0 })));
  // Not enlarged: one workload would fill the whole width.
  picture.style.maxWidth = `${width}px`;
  picture.style.minWidth = `${Math.min(width, 540)}px`;
  const rows = app.talks.map((/** @type {any} */ one) => [one.from, one.to, one.bandwidth ?? "–", one.cost ?? "–", worstCost(app.workloads[one.from], app.workloads[one.to], ways) ?? "–"]);
  return el("section", { class: "card" }, el("h2", {}, name(key)), el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `Graph of ${key}` }, picture),
    el("details", {}, el("summary", {}, "Dependencies"), table(["From", "To", "Minimum bandwidth", "Maximum cost", "Worst cost"], rows)));
}

/** @param {string} workload @param {Record<string, number>} parts pods by unit @param {{x: number, y: number}} at */
function box(workload, parts, { x, y }) {
  const units = Object.entries(parts), pods = units.reduce((sum, [, count]) => sum + count, 0);
  const where = units.slice(0, MOST_UNITS).map(([unit, count]) => (units.length > 1 ? `${unit} × ${count}` : unit)).join(", ");
  return svg("g", {}, svg("title", {}, workload), svg("rect", { class: pods ? "box" : "box none", x, y, width: BOX.w, height: BOX.h, rx: 6 }),
    svg("text", { x: x + 12, y: y + 23, "font-weight": 600 }, cut(workload, 22)),
    svg("text", { class: "label", x: x + 12, y: y + 43 }, pods ? cut(`${many(pods, "pod")} in ${where}${units.length > MOST_UNITS ? ` and ${units.length - MOST_UNITS} more` : ""}`, 27) : "no pod is placed"));
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
    el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `Costs of ${key}` }, table(["From", "To", "Cost", "Bandwidth", "Booked"], those.map((way) => [way.origin, way.destination, way.cost ?? "–", way.capacity ?? "–", way.allocated ?? "–"])))));
}

/** @param {string[]} titles @param {any[][]} rows */
function table(titles, rows) {
  return el("table", {}, el("thead", {}, el("tr", {}, ...titles.map((one, index) => el("th", { scope: "col", class: index > 1 ? "num" : null }, one)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, index) => el("td", { class: index > 1 ? "num" : null }, name(String(cell))))))));
}
