// The cluster as nested blocks: area is capacity, colour is use. Beside it the same as a list.
import { amount, el, name, Rows } from "./dom.js";
import { known } from "./feed.js";
import { layout } from "./treemap.js";

const FULL = 0.9;
let resource = "cpu";

/** @param {string} rest @param {boolean} isWhole whether it is a view of its own @returns {{element: HTMLElement, update: () => void}} */
export function cluster(rest, isWhole = true) {
  let at = rest || "/";
  /** @type {{key: string, unit: any, x: number, y: number, w: number, h: number, leaf: boolean}[]} */ let blocks = [];
  /** @type {Map<string, string[]>} */ let children = new Map();
  const canvas = /** @type {HTMLCanvasElement} */ (el("canvas", { role: "img", onclick: open, onmousemove: hover, onmouseleave: () => { tip.hidden = true; } }));
  const tip = el("div", { class: "tip", hidden: true });
  const choose = /** @type {HTMLSelectElement} */ (el("select", { onchange: () => { resource = choose.value; draw(); } }));
  const facts = el("dl", { class: "facts" });
  const crumbs = el("nav", { class: "crumbs", "aria-label": "Part of the cluster" });
  const notices = el("div");
  const list = /** @type {Rows<string>} */ (new Rows("Parts", 58, "unit", row));
  const element = el("div", { class: "view" },
    el("div", { class: "head" }, el(isWhole ? "h1" : "h2", {}, "Cluster"), crumbs, el("span", { class: "grow" }),
      el("label", {}, "Show", choose),
      el("span", { class: "legend" }, "0 %", el("span", { class: "ramp" }), "100 % requested", el("span", { class: "fullmark" }), "over 90 %")),
    notices, facts,
    el("div", { class: "cluster" }, el("div", { class: "card blocks" }, canvas, tip), el("div", { class: "card list" }, list.element)));
  new ResizeObserver(() => draw()).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());

  function update() {
    children = new Map();
    for (const [key, unit] of known.units) {
      if (unit.parent === null) continue;
      const those = children.get(unit.parent);
      if (those) those.push(key); else children.set(unit.parent, [key]);
    }
    if (!known.units.has(at)) at = "/";
    draw();
  }

  function draw() {
    const unit = known.units.get(at);
    notices.replaceChildren(...(known.about.get("about")?.notices ?? []).map((/** @type {string} */ text) => el("p", { class: "notice" }, text)));
    if (!unit) return;
    const resources = Object.keys(unit.room);
    if (resources.length && !resources.includes(resource)) resource = resources[0];
    if (choose.length !== resources.length) choose.replaceChildren(...resources.map((one) => el("option", { value: one, selected: one === resource }, one)));
    choose.value = resource;
    crumbs.replaceChildren(...path().map((key) => el("button", { onclick: () => go(key), "aria-current": key === at ? "true" : null }, known.units.get(key)?.name ? name(known.units.get(key).name) : title(key))));
    facts.replaceChildren(fact("Nodes", unit.nodes), fact("Closed", unit.closed), fact("Pods", unit.pods), fact("Waiting", at === "/" ? waiting() : "–"),
      ...resources.map((one) => fact(one, `${amount(one, unit.room[one][0])} of ${amount(one, unit.room[one][1])}`)));
    const below = children.get(at) ?? [];
    list.show(below.length ? below : [at]);
    paint(below);
  }

  /** @param {string[]} below */
  function paint(below) {
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !height) return;
    const scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.setAttribute("aria-label", `${known.units.get(at).nodes} nodes by capacity, coloured by requested ${resource}; the list beside it says the same`);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.scale(scale, scale);
    const colours = palette();
    blocks = [];
    place(below.length ? below : [at], { x: 2, y: 2, w: width - 4, h: height - 4 });
    context.textBaseline = "middle";
    for (const block of blocks) {
      const share = use(block.unit);
      context.fillStyle = block.leaf ? (share > FULL ? colours.full : mix(colours.empty, colours.used, share)) : colours.card;
      context.fillRect(block.x, block.y, block.w, block.h);
      if (block.leaf && block.unit.closed && block.w > 6) hatch(context, block, colours.edge);
      const room = block.leaf ? block.h : 18;
      if (block.w < 34 || room < 14) continue;
      context.fillStyle = block.leaf ? (share > 0.55 ? colours.strong : colours.text) : colours.text;
      context.font = `${block.leaf ? "" : "600 "}12px system-ui, sans-serif`;
      const label = block.unit.name || title(block.key), percent = `${Math.round(share * 100)} %`;
      const cut = fit(context, label, block.w - 10);
      const y = block.y + (block.leaf ? Math.min(12, block.h / 2) : 9);
      // Of a small block its use says more than the beginning of its name.
      if (block.leaf && cut !== label && (context.measureText(label).width > 1.3 * block.w || block.h <= 32)) context.fillText(percent, block.x + 5, y);
      else {
        context.fillText(cut, block.x + 5, y);
        if (block.leaf && block.h > 32) context.fillText(percent, block.x + 5, block.y + 27);
      }
    }
  }

  /** @param {string[]} keys @param {{x: number, y: number, w: number, h: number}} box */
  function place(keys, box) {
    const sized = keys.map((key) => ({ key, size: known.units.get(key)?.room[resource]?.[1] ?? 0 })).filter((one) => one.size > 0);
    for (const { key, x, y, w, h } of layout(sized, box)) {
      const unit = known.units.get(key);
      const below = children.get(key) ?? [];
      const gap = w > 8 && h > 8 ? 1 : w > 3 && h > 3 ? 0.5 : 0;
      const block = { key, unit, x: x + gap, y: y + gap, w: w - 2 * gap, h: h - 2 * gap, leaf: !below.length };
      blocks.push(block);
      const head = block.h > 40 ? 18 : 0;
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
    // The topmost part that lies below the one in sight.
    let key = block.key;
    while (known.units.get(key)?.parent !== at && known.units.get(key)?.parent) key = known.units.get(key).parent;
    go(key);
  }

  /** @param {MouseEvent} event */
  function hover(event) {
    const block = under(event);
    tip.hidden = !block;
    if (!block) return;
    tip.textContent = `${block.unit.name || title(block.key)}\n${Object.entries(block.unit.room).map(([one, [asked, all]]) => `${one} ${amount(one, asked)} of ${amount(one, all)}`).join("\n")}\n${block.unit.pods} pods${block.unit.closed ? ", closed to new pods" : ""}`;
    tip.style.left = `${Math.min(event.offsetX + 14, canvas.clientWidth - 190)}px`;
    tip.style.top = `${Math.min(event.offsetY + 14, canvas.clientHeight - 110)}px`;
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
    const share = use(unit);
    const many = (children.get(key) ?? []).length > 0;
    const [asked, all] = unit.room[resource] ?? [0, 0];
    const shown = unit.name ? name(unit.name) : title(key);
    return [
      el("div", {}, key === at ? el("strong", { class: "cut" }, shown) : el("button", { class: "cut", onclick: () => go(key) }, shown),
        el("span", { class: "sub cut" }, `${many ? `${unit.nodes} nodes, ` : ""}${unit.pods} pods${unit.closed ? (many ? `, ${unit.closed} closed` : ", closed") : ""}`)),
      el("div", { class: "num" }, `${Math.round(share * 100)} %`, el("span", { class: "sub cut" }, `${amount(resource, asked)} / ${amount(resource, all)}`), meter(share)),
    ];
  }

  return { element, update };
}

/** @param {any} unit */
const use = (unit) => (unit.room[resource]?.[1] ? unit.room[resource][0] / unit.room[resource][1] : 0);

/** @param {string} key */
const title = (key) => (key === "/" ? "Whole cluster" : "Without the label");

/** @param {string} label @param {string | number} value */
const fact = (label, value) => el("div", {}, el("dt", {}, label), el("dd", { class: "num" }, value));

function waiting() {
  let count = 0;
  for (const pod of known.pods.values()) if (!pod.node) count++;
  return count;
}

/** @param {number} share */
function meter(share) {
  const bar = el("span");
  bar.style.width = `${Math.min(100, share * 100)}%`;
  return el("div", { class: share > FULL ? "meter full" : "meter" }, bar);
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  const colour = (/** @type {string} */ one) => style.getPropertyValue(one).trim();
  return { empty: colour("--use-0"), used: colour("--use-1"), full: colour("--full"), card: colour("--bar"), text: colour("--block-text"), strong: colour("--block-text-strong"), edge: colour("--quiet") };
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

/** @param {CanvasRenderingContext2D} context @param {string} text @param {number} width */
function fit(context, text, width) {
  if (text.length > 60) text = `${text.slice(0, 60)}…`;
  while (text.length > 1 && context.measureText(text).width > width) text = `${text.slice(0, -2)}…`;
  return text;
}
