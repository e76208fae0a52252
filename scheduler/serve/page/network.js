// The network: applications as graphs over the topmost units of the cluster, and the cost tables.
import { el, many, name, svg } from "./dom.js";
import { known, link } from "./feed.js";

const BOX = { w: 150, h: 40, gap: 22, zone: 210 };

/** @returns {{element: HTMLElement, update: () => void}} */
export function network() {
  const body = el("div", { class: "view" });
  const element = el("div", { class: "view" }, el("h1", {}, "Network"), body);
  let drawn = "";
  function update() {
    if (!link.live) return;
    const applications = [...known.applications], ways = [...known.ways.values()];
    const now = JSON.stringify([applications, ways]);
    if (now === drawn) return;
    drawn = now;
    if (!applications.length && !ways.length) return body.replaceChildren(el("p", { class: "empty" }, "No AppGroup and no NetworkTopology: the network is unknown."));
    body.replaceChildren(...applications.map(([key, one]) => application(key, one, ways)), ...tables(ways));
  }
  return { element, update };
}

/** @param {string} key @param {any} app @param {any[]} ways */
function application(key, app, ways) {
  // A workload is drawn in every unit with pods of it; "" is for waiting pods.
  const zones = [...new Set(Object.values(app.workloads).flatMap((parts) => (Object.keys(parts).length ? Object.keys(parts) : [""])))].sort((a, b) => (a === "" ? 1 : b === "" ? -1 : a < b ? -1 : 1));
  /** @type {{workload: string, zone: string, pods: number, x: number, y: number}[]} */ const boxes = [];
  const filled = new Map(zones.map((zone) => [zone, 0]));
  for (const [workload, parts] of Object.entries(app.workloads)) {
    for (const zone of Object.keys(parts).length ? Object.keys(parts) : [""]) {
      const row = filled.get(zone) ?? 0;
      filled.set(zone, row + 1);
      boxes.push({ workload, zone, pods: parts[zone] ?? 0, x: zones.indexOf(zone) * (BOX.zone + 50) + 30, y: 40 + row * (BOX.h + BOX.gap) });
    }
  }
  const height = 40 + Math.max(1, ...filled.values()) * (BOX.h + BOX.gap) + 8, width = zones.length * (BOX.zone + 50);
  const cost = (/** @type {string} */ from, /** @type {string} */ to) => (from === to ? 0 : ways.find((way) => way.origin === from && way.destination === to)?.cost ?? null);
  const lines = [];
  for (const edge of app.talks) {
    for (const one of boxes.filter((box) => box.workload === edge.from)) for (const other of boxes.filter((box) => box.workload === edge.to)) {
      const price = cost(one.zone, other.zone);
      const over = price !== null && edge.cost !== null && price > edge.cost;
      const [x1, y1, x2, y2] = [one.x + (other.x > one.x ? BOX.w : other.x < one.x ? 0 : BOX.w), one.y + BOX.h / 2, other.x + (other.x > one.x ? 0 : BOX.w), other.y + BOX.h / 2];
      const bend = one.x === other.x ? 40 : (x2 - x1) / 2;
      lines.push(svg("path", { class: over ? "over" : null, d: `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 + (one.x === other.x ? 40 : -bend)} ${y2} ${x2} ${y2}` }),
        one.zone !== other.zone && price !== null ? svg("text", { class: "label", x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 5, "text-anchor": "middle" }, `cost ${price}`) : null);
    }
  }
  const picture = svg("svg", { class: "graph", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Workloads of ${key} by part of the cluster; the table below says the same` },
    ...zones.map((zone, index) => svg("g", {}, svg("rect", { class: "zone", x: index * (BOX.zone + 50) + 4, y: 4, width: BOX.zone, height: height - 8, rx: 8 }), svg("text", { x: index * (BOX.zone + 50) + 16, y: 25, "font-weight": 600 }, zone || "not placed"))),
    ...lines,
    ...boxes.map((box) => svg("g", {}, svg("title", {}, box.workload), svg("rect", { class: "box", x: box.x, y: box.y, width: BOX.w, height: BOX.h, rx: 6 }), svg("text", { x: box.x + 10, y: box.y + 17 }, box.workload.length > 19 ? `${box.workload.slice(0, 18)}…` : box.workload), svg("text", { class: "label", x: box.x + 10, y: box.y + 33 }, many(box.pods, "pod")))));
  picture.style.maxWidth = `${width}px`;
  // Do not enlarge the drawing: a single zone would fill the whole width.
  picture.style.maxWidth = `${width}px`;
  picture.style.minWidth = `${Math.min(width, 540)}px`;
  return el("section", { class: "card" }, el("h2", {}, name(key)), el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `Graph of ${key}` }, picture),
    el("details", {}, el("summary", {}, "Dependencies"), table(["From", "To", "Minimum bandwidth", "Maximum cost"], app.talks.map((/** @type {any} */ one) => [one.from, one.to, one.bandwidth ?? "–", one.cost ?? "–"]))));
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
  return el("table", {}, el("thead", {}, el("tr", {}, ...titles.map((one) => el("th", { scope: "col" }, one)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, index) => el("td", { class: index > 1 ? "num" : null }, name(String(cell))))))));
}
