// The cluster as nested blocks: a node is a block in its rack, coloured by use or a category. A list beside it has the same data.
import { amount, duration, el, many, name, natural, Rows, thousands } from "./dom.js";
import { known, report } from "./feed.js";
import { node } from "./node.js";
import { ALARMING, categories, COLOURS, isCategory, isFree, MEANING, scarcest, shades, used, zonesOf } from "./shades.js";
import { layout } from "./treemap.js";

const FULL = 0.9;
/** The least width of a block with a name above its parts, in pixels. */
const NAMED = 52;
/** The meaning of colours, kept between views; by default the scarcest resource. @type {import("./shades.js").Shade} */
let shown = { id: "", of: "room", resource: "cpu", label: "" };
let isChosen = false;
/** @type {ReturnType<typeof categories>} */ let category = { of: () => undefined, all: [] };
/** @type {(key: string) => import("./shades.js").Pair | undefined} */ let pair = () => undefined;

/** @param {string} rest @param {boolean} isWhole whether it is a view of its own @returns {{element: HTMLElement, update: () => void}} */
export function cluster(rest, isWhole = true) {
  let at = rest || "/";
  /** @type {{key: string, unit: any, x: number, y: number, w: number, h: number, leaf: boolean}[]} */ let blocks = [];
  /** @type {Map<string, string[]>} */ let children = new Map();
  /** @type {string[]} the keys that `children` is made of */ let keys = [];
  /** @type {[string, any][]} */ let unbound = [];
  const canvas = /** @type {HTMLCanvasElement} */ (el("canvas", { role: "img", onclick: open, onmousemove: hover, onmouseleave: () => { tip.hidden = true; } }));
  const tip = el("div", { class: "tip", hidden: true });
  const choose = /** @type {HTMLSelectElement} */ (el("select", { onchange: () => { isChosen = true; shown = all.find((one) => one.id === choose.value) ?? shown; measure(); draw(); } }));
  const legend = el("span", { class: "legend" });
  /** @type {import("./shades.js").Shade[]} */ let all = [];
  const facts = el("dl", { class: "facts" });
  const crumbs = el("nav", { class: "crumbs", "aria-label": "Part of the cluster" });
  const notices = el("div");
  const waits = el("section", { class: "card waits" });
  const detail = el("div", { class: "detail", hidden: true });
  let detailed = "";
  const list = /** @type {Rows<string>} */ (new Rows("Parts", 58, "unit", row));
  const element = el("div", { class: "view" },
    el("div", { class: "head" }, el(isWhole ? "h1" : "h2", {}, "Cluster"), crumbs, el("span", { class: "grow" }),
      el("label", {}, "Show", choose),
      legend),
    notices, facts,
    el("div", { class: "cluster" }, el("div", { class: "card blocks" }, canvas, tip, detail), el("div", { class: "beside" }, waits, el("div", { class: "card list" }, list.element))));
  new ResizeObserver(() => draw()).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());

  function update() {
    const now = [...known.units.keys()];
    if (now.length !== keys.length || now.some((key, index) => key !== keys[index])) {
      keys = now;
      arrange();
    }
    unbound = [];
    for (const entry of known.pods) if (!entry[1].node) unbound.push(entry);
    if (!known.units.has(at)) at = "/";
    all = known.units.has("/") ? shades(known.units.get("/")) : [];
    const first = known.units.has("/") ? `room:${scarcest(known.units.get("/"))}` : "";
    shown = all.find((one) => one.id === (isChosen ? shown.id : first)) ?? all[0] ?? shown;
    measure();
    draw();
  }

  /** List the units below each unit; a key is the path of names, so it changes with neither the use nor the pods of a unit. */
  function arrange() {
    children = new Map();
    for (const [key, unit] of known.units) {
      if (unit.parent === null) continue;
      const those = children.get(unit.parent);
      if (those) those.push(key); else children.set(unit.parent, [key]);
    }
    const last = (/** @type {string} */ key) => Number(!known.units.get(key).name);
    for (const those of children.values()) those.sort((a, b) => last(a) - last(b) || natural(known.units.get(a).name, known.units.get(b).name));
  }

  function measure() {
    pair = used(shown);
    category = isCategory(shown) ? categories(shown) : { of: () => undefined, all: [] };
  }

  function explainColours() {
    const entry = (/** @type {string} */ mark, /** @type {(Node | string)[]} */ ...label) => el("span", { class: "entry" }, el("span", { class: `fullmark ${mark}` }), ...label);
    const also = known.units.get(at)?.closed ? [entry("hatched", "unschedulable")] : [];
    if (!isCategory(shown)) {
      if (keys.some((key) => known.units.get(key)?.level === "node" && isBelow(key, at) && pair(key) === undefined)) also.unshift(entry("outlined", nothing()));
      return legend.replaceChildren("0 %", el("span", { class: "ramp" }), `100 % ${MEANING[shown.of]}`, ...(ALARMING.has(shown.of) ? [entry("", "over 90 %")] : []), ...also);
    }
    const others = category.all.slice(COLOURS - 1);
    const listed = [...category.all.slice(0, COLOURS - 1), ...(others.length > 1 ? [{ label: `${others.length} others`, colour: COLOURS - 1, nodes: others.reduce((sum, one) => sum + one.nodes, 0) }] : others)];
    legend.replaceChildren(...listed.map((one) => entry(`s${one.colour}`, el("span", { class: "cut", title: one.label }, name(one.label)), thousands(one.nodes))),
      ...(listed.length ? [] : ["none"]), ...also);
  }

  function draw() {
    const unit = known.units.get(at);
    notices.replaceChildren(...(known.about.get("about")?.notices ?? []).map((/** @type {string} */ text) => el("p", { class: "notice" }, text)));
    if (!unit) return;
    const resources = Object.keys(unit.room);
    if (choose.length !== all.length) choose.replaceChildren(...all.map((one) => el("option", { value: one.id }, one.label)));
    choose.value = shown.id;
    explainColours();
    crumbs.replaceChildren(...path().map((key) => el("button", { onclick: () => go(key), "aria-current": key === at ? "true" : null }, known.units.get(key)?.name ? name(known.units.get(key).name) : title(key))));
    const isNode = unit.level === "node";
    facts.replaceChildren(...(isNode ? [] : [fact("Nodes", unit.nodes), fact("Unschedulable", unit.closed), fact("Free nodes", freeIn(at))]),
      fact("Pods", unit.pods), ...(at === "/" ? [fact("Waiting", unbound.length)] : []),
      ...resources.map((one) => fact(one, `${amount(one, unit.room[one][0])} of ${amount(one, unit.room[one][1])}`)));
    const below = children.get(at) ?? [];
    const units = below.flatMap(unitsFrom);
    let listed = below;
    while (listed.length === 1 && children.has(listed[0])) listed = children.get(listed[0]) ?? [];
    list.show(units.length ? units : listed.length ? listed : children.get(unit.parent) ?? [at]);
    const longest = isWhole && at === "/" ? waitingLongest(unbound) : [];
    waits.hidden = !longest.length;
    waits.replaceChildren(el("h2", {}, el("a", { href: "#/queue" }, "Waiting")), el("ul", {}, ...longest));
    detail.hidden = !isNode;
    canvas.style.visibility = isNode ? "hidden" : "";
    if (!isNode) { detailed = ""; return paint(below); }
    if (detailed === at) return;
    detailed = at;
    detail.replaceChildren(node(unit));
  }

  /** A unit and those below it, without nodes and without a level of a single unit. @param {string} key @returns {string[]} */
  function unitsFrom(key) {
    const below = children.get(key);
    if (!below) return [];
    return [...(children.get(known.units.get(key).parent)?.length === 1 ? [] : [key]), ...below.flatMap(unitsFrom)];
  }

  /** The number of nodes below a unit without requests of the scarcest resource. @param {string} top @returns {number} */
  function freeIn(top) {
    const resource = scarcest(known.units.get("/"));
    let count = 0;
    for (const [key, unit] of known.units) if (unit.level === "node" && isFree(unit, resource) && isBelow(key, top)) count++;
    return count;
  }

  /** @param {string[]} below */
  function paint(below) {
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !height) return;
    const scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.setAttribute("aria-label", `${known.units.get(at).nodes} nodes coloured by ${shown.label}; the list beside it has the same data`);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.scale(scale, scale);
    const colours = palette();
    blocks = [];
    place(below.length ? below : [at], { x: 2, y: 2, w: width - 4, h: height - 4 });
    context.textBaseline = "middle";
    for (const block of blocks) {
      const share = use(block.key);
      context.fillStyle = colours.card;
      context.fillRect(block.x, block.y, block.w, block.h);
      if (block.leaf && share === undefined) {
        context.strokeStyle = colours.edge;
        context.globalAlpha = 0.4;
        context.strokeRect(block.x + 0.5, block.y + 0.5, block.w - 1, block.h - 1);
        context.globalAlpha = 1;
      }
      if (block.leaf) for (const [part, [taken, of]] of parts(block)) {
        context.fillStyle = of && isTrouble(taken, of) ? colours.full : mix(colours.empty, colours.used, of ? taken / of : 0);
        context.fillRect(block.x + part.x, block.y, part.w, block.h);
      }
      const own = block.leaf && isCategory(shown) ? category.of(block.unit.name) : undefined;
      if (isCategory(shown) && block.leaf) {
        // Categories of the last colour differ in shade: neighbours are told apart.
        context.fillStyle = !own ? colours.empty : own.rank < COLOURS ? colours.categories[own.colour] : mix(colours.categories[own.colour], colours.text, 0.22 * (own.rank % 3));
        context.fillRect(block.x, block.y, block.w, block.h);
      }
      // The text, and the lines of a hatch, are over the first part.
      const [, [taken, of]] = parts(block)[0] ?? [null, [0, 1]];
      const isStrong = block.leaf && (own || (!isCategory(shown) && taken / (of || 1) > 0.55));
      if (block.leaf && block.unit.closed && block.w > 6) hatch(context, block.h > 90 ? { ...block, y: block.y + 54, h: block.h - 54 } : block, isStrong ? colours.strong : colours.edge);
      const room = block.leaf ? block.h : 18;
      if (block.w < (block.leaf ? 34 : NAMED) || room < 14 || (!block.leaf && block.h <= 40)) continue;
      context.fillStyle = isStrong ? colours.strong : colours.text;
      context.font = `${block.leaf ? "" : "600 "}12px system-ui, sans-serif`;
      const label = block.unit.name || title(block.key);
      const second = isCategory(shown) ? own?.label ?? "" : share === undefined ? nothing() : `${Math.round(share * 100)} %`;
      const wide = (block.leaf && parts(block).length > 1 ? parts(block)[0][0].w : block.w) - 10;
      const y = block.y + (block.leaf ? Math.min(12, block.h / 2) : 9);
      context.fillText(fit(context, label, wide), block.x + 5, y);
      if (block.leaf && block.h > 32 && block.w > 44) context.fillText(fit(context, second, wide), block.x + 5, block.y + 27);
      const groups = Object.keys(block.unit.groups);
      if (block.leaf && block.h > 56 && block.w > 90 && groups.length && shown.of !== "group") context.fillText(fit(context, groups.length > 1 ? many(groups.length, "group") : groups[0], wide), block.x + 5, block.y + 42);
    }
  }

  /** The stripes of a node's block, one for each NUMA zone where zones are shown. @param {{key: string, unit: any, w: number, leaf: boolean}} block @returns {[{x: number, w: number}, import("./shades.js").Pair][]} */
  function parts(block) {
    const zones = shown.of === "zones" && block.leaf ? zonesOf(block.unit.name, shown.resource) : [];
    if (zones.length < 2 || block.w < 3 * zones.length) {
      const whole = block.leaf ? pair(block.key) : undefined;
      return whole ? [[{ x: 0, w: block.w }, whole]] : [];
    }
    const width = block.w / zones.length;
    return zones.map(([, taken], number) => [{ x: number * width, w: number + 1 < zones.length ? width - 1 : width }, taken]);
  }

  /** @param {string[]} keys @param {{x: number, y: number, w: number, h: number}} box */
  function place(keys, box) {
    const sized = keys.map((key) => ({ key, size: known.units.get(key)?.nodes ?? 0 })).filter((one) => one.size > 0);
    for (const { key, x, y, w, h } of layout(sized, box)) {
      const unit = known.units.get(key);
      const below = children.get(key) ?? [];
      const gap = w > 8 && h > 8 ? 1 : w > 3 && h > 3 ? 0.5 : 0;
      const block = { key, unit, x: x + gap, y: y + gap, w: w - 2 * gap, h: h - 2 * gap, leaf: !below.length };
      blocks.push(block);
      // Without space for a name there is no line for it.
      const head = block.h > 40 && block.w > NAMED ? 18 : 0;
      if (below.length && block.w > 3 && block.h > 3) place(below, { x: block.x + 1, y: block.y + head, w: block.w - 2, h: block.h - head - 1 });
    }
  }

  /** @param {MouseEvent} event */
  function under(event) {
    return blocks.findLast((one) => event.offsetX >= one.x && event.offsetX < one.x + one.w && event.offsetY >= one.y && event.offsetY < one.y + one.h);
  }

  /** @param {MouseEvent} event */
  function open(event) {
    const block = under(event);
    if (!block) return;
    // The topmost unit below the displayed one.
    let key = block.key;
    while (known.units.get(key)?.parent !== at && known.units.get(key)?.parent) key = known.units.get(key).parent;
    go(key);
  }

  /** @param {MouseEvent} event */
  function hover(event) {
    const block = under(event);
    tip.hidden = !block;
    if (!block) return;
    tip.textContent = `${block.unit.name || title(block.key)}\n${Object.entries(block.unit.room).map(([one, [asked, all]]) => `${one} ${amount(one, asked)} of ${amount(one, all)}`).join("\n")}\n${many(block.unit.pods, "pod")}${block.unit.closed ? (block.leaf ? ", unschedulable" : `, ${many(block.unit.closed, "unschedulable node")}`) : ""}${useLines(block)}`;
    tip.style.left = `${Math.min(event.offsetX + 14, canvas.clientWidth - 190)}px`;
    tip.style.top = `${Math.min(event.offsetY + 14, canvas.clientHeight - 110)}px`;
  }

  /** @param {{key: string, unit: any}} block @returns {string} */
  function useLines(block) {
    if (isCategory(shown)) {
      const own = block.unit.level === "node" ? category.of(block.unit.name) : undefined;
      return own && shown.of !== "free" ? `\nmostly ${own.label}` : "";
    }
    if (shown.of === "room") return "";
    const zones = shown.of === "zones" && block.unit.level === "node" ? zonesOf(block.unit.name, shown.resource) : [];
    const lines = zones.map(([zone, [taken, of]]) => `\n${zone}: ${amount(shown.resource, taken)} of ${amount(shown.resource, of)}`);
    const sum = pair(block.key);
    return lines.join("") || `\n${shown.label}: ${sum ? `${amount(shown.resource, sum[0])} of ${amount(shown.resource, sum[1])}` : "none"}`;
  }

  /** @param {string} key */
  function go(key) { at = key; draw(); }

  /** @returns {string[]} */
  function path() {
    const keys = [];
    for (/** @type {string | null} */ let key = at; key; key = known.units.get(key)?.parent ?? null) keys.unshift(key);
    return keys;
  }

  /** @param {string} key */
  function row(key) {
    const unit = known.units.get(key);
    const share = use(key);
    const isMany = (children.get(key) ?? []).length > 0;
    const sum = pair(key);
    const label = unit.name ? name(unit.name) : title(key);
    const resource = shown.of === "free" ? "" : shown.resource;
    const text = sum ? `${amount(resource, sum[0])} of ${amount(resource, sum[1])}` : nothing();
    const depth = unit.level === "node" ? 0 : key.split("/").length - (at === "/" ? 1 : at.split("/").length + 1);
    return [
      el("div", { class: depth > 0 ? `in${Math.min(depth, 3)}` : null }, key === at ? el("strong", { class: "cut" }, label) : el("button", { class: "cut", onclick: () => go(key) }, label),
        el("span", { class: "sub cut", title: unit.closed ? many(unit.closed, "unschedulable node") : null }, `${isMany ? `${many(unit.nodes, "node")}, ` : ""}${many(unit.pods, "pod")}${unit.closed ? (isMany ? `, ${thousands(unit.closed)} unschedulable` : ", unschedulable") : ""}`)),
      el("div", {}, el("div", { class: "share num" }, el("span", {}, share === undefined ? "" : `${Math.round(share * 100)} %`), el("span", { class: "sub" }, text)), meter(share ?? 0, ALARMING.has(shown.of))),
    ];
  }

  return { element, update };
}

/** The used share of a unit, undefined if unknown. @param {string} key */
function use(key) {
  const sum = pair(key);
  return sum && (sum[1] ? sum[0] / sum[1] : 0);
}

/** Where a node has nothing of what is shown: not measured, or not offered. */
const nothing = () => (shown.of === "load" || shown.of === "zones" ? "not known" : "none");

/** @param {string} key */
const title = (key) => (key === "/" ? "Whole cluster" : "Without the label");

/** @param {string} label @param {string | number} value */
const fact = (label, value) => el("div", {}, el("dt", {}, label), el("dd", { class: "num" }, typeof value === "number" ? thousands(value) : value));

const LONGEST = 4;

/** What waits, groups and the longest first. @param {[string, any][]} unbound @returns {HTMLElement[]} */
function waitingLongest(unbound) {
  /** @type {Map<string, {since: number, pods: number, isGroup: boolean, of: string}>} */ const found = new Map();
  for (const [key, pod] of unbound) {
    const one = found.get(pod.group ?? key) ?? { since: Infinity, pods: 0, isGroup: Boolean(pod.group), of: key };
    one.since = Math.min(one.since, pod.since ?? Infinity);
    one.pods++;
    found.set(pod.group ?? key, one);
  }
  const at = known.about.get("about")?.at ?? 0;
  const all = [...found].sort(([, a], [, b]) => Number(b.isGroup) - Number(a.isGroup) || a.since - b.since);
  const rows = all.slice(0, LONGEST).map(([key, one]) => el("li", {}, report ? el("span", { class: "cut" }, name(key)) : el("a", { href: `#/pod/${encodeURIComponent(one.of)}`, class: "cut", title: key }, name(key)),
    el("span", { class: "sub" }, [one.isGroup && many(one.pods, "pod"), one.since < Infinity && duration(at - one.since)].filter(Boolean).join(", "))));
  return all.length > LONGEST ? [...rows, el("li", { class: "sub" }, `and ${all.length - LONGEST} more`)] : rows;
}

/** Whether a unit is `top` or below it. @param {string} key @param {string} top */
const isBelow = (key, top) => top === "/" || key === top || key.startsWith(`${top}/`);

/** Whether a share is critical: measured load near the limit, or above the capacity. @param {number} taken @param {number} of */
const isTrouble = (taken, of) => taken > of || (ALARMING.has(shown.of) && taken / of > FULL);

/** @param {number} share @param {boolean} isAlarming */
function meter(share, isAlarming) {
  const bar = el("span");
  bar.style.width = `${Math.min(100, share * 100)}%`;
  return el("div", { class: share > (isAlarming ? FULL : 1) ? "meter full" : "meter" }, bar);
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  const colour = (/** @type {string} */ one) => style.getPropertyValue(one).trim();
  return { empty: colour("--use-0"), used: colour("--use-1"), full: colour("--full"), card: colour("--bar"), text: colour("--block-text"), strong: colour("--block-text-strong"), edge: colour("--quiet"), categories: Array.from({ length: COLOURS }, (_, at) => colour(`--s${at}`)) };
}

/** @param {string} from @param {string} to `#rrggbb` @param {number} share */
function mix(from, to, share) {
  const part = (/** @type {number} */ i) => {
    const [a, b] = [from, to].map((one) => parseInt(one.slice(1 + 2 * i, 3 + 2 * i), 16));
    return Math.round(a + (b - a) * Math.min(1, share));
  };
  return `rgb(${part(0)} ${part(1)} ${part(2)})`;
}

/** @param {CanvasRenderingContext2D} context @param {{x: number, y: number, w: number, h: number}} block @param {string} colour */
function hatch(context, block, colour) {
  context.save();
  context.beginPath();
  context.rect(block.x, block.y, block.w, block.h);
  context.clip();
  context.strokeStyle = colour;
  context.globalAlpha = 0.5;
  context.beginPath();
  for (let x = block.x - block.h; x < block.x + block.w; x += 7) { context.moveTo(x, block.y + block.h); context.lineTo(x + block.h, block.y); }
  context.stroke();
  context.restore();
}

/** The end of a text, which distinguishes names, or '' if fewer than four letters fit. @param {CanvasRenderingContext2D} context @param {string} text @param {number} width */
function fit(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  if (text.length > 60) text = `…${text.slice(-60)}`;
  while (text.length > 4 && context.measureText(text).width > width) text = `…${text.slice(2)}`;
  return text.length > 4 ? text : "";
}
