// Elements, texts and lists. Data of the cluster becomes text nodes only, so that it cannot become
// markup.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Make an element; `on…` properties are listeners, the rest attributes (true: present, false: left out).
 * @param {string} tag @param {Record<string, any>} [properties] @param {...Child} children
 * @returns {HTMLElement}
 */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  set(made, properties);
  add(made, children);
  return made;
}

/**
 * @param {string} tag @param {Record<string, any>} [properties] @param {...Child} children
 * @returns {SVGElement}
 */
export function svg(tag, properties = {}, ...children) {
  const made = /** @type {SVGElement} */ (document.createElementNS("http://www.w3.org/2000/svg", tag));
  set(made, properties);
  add(made, children);
  return made;
}

/** A name from the cluster, isolated from the direction of the text around it. @param {string} text */
export const name = (text) => el("bdi", { class: "name" }, text);

const ORDER = new Intl.Collator("en", { numeric: true });
/** The order of names in which `a-2` comes before `a-10`. @param {string} a @param {string} b */
export const natural = (a, b) => ORDER.compare(a, b);

/** A number of things, in words: `1 pod`, `2 pods`. @param {number} number @param {string} one */
export const many = (number, one) => `${thousands(number)} ${one}${number === 1 ? "" : "s"}`;

/** A number with commas. Loading a locale for it would take longer than drawing a thousand nodes. @param {number} number */
export function thousands(number) {
  const [whole, part] = String(number).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? `.${part}` : "");
}

/** @param {Element} made @param {Record<string, any>} properties */
function set(made, properties) {
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== undefined && value !== null) made.setAttribute(key, value === true ? "" : String(value));
  }
}

/** @param {Element} made @param {Child[]} children */
function add(made, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/**
 * A list that holds only the rows in sight; every row is `height` pixels high.
 * @template T
 */
export class Rows {
  /** @param {string} label @param {number} height @param {string} style @param {(item: T, index: number) => Child[]} row */
  constructor(label, height, style, row) {
    this.height = height;
    this.style = style;
    this.row = row;
    /** @type {T[]} */ this.items = [];
    this.list = el("ul");
    this.element = el("div", { class: "rows", tabindex: 0, role: "group", "aria-label": label, onscroll: () => this.draw() }, this.list);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** @param {T[]} items */
  show(items) {
    this.items = items;
    this.list.style.height = `${items.length * this.height}px`;
    this.draw();
  }

  /** Scroll until a row is visible. @param {number} index */
  reveal(index) {
    const top = index * this.height, room = this.element.clientHeight - this.height;
    if (top < this.element.scrollTop || top > this.element.scrollTop + room) this.element.scrollTop = top - room / 2;
  }

  draw() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / this.height) - 4);
    const last = Math.min(this.items.length, first + Math.ceil(this.element.clientHeight / this.height) + 8);
    const focused = this.list.contains(document.activeElement) ? document.activeElement?.closest("li")?.getAttribute("aria-posinset") : null;
    const rows = [];
    for (let index = first; index < last; index++) {
      const row = el("li", { class: this.style, "aria-setsize": this.items.length, "aria-posinset": index + 1 }, ...this.row(this.items[index], index));
      row.style.top = `${index * this.height}px`;
      row.style.height = `${this.height}px`;
      rows.push(row);
    }
    this.list.replaceChildren(...rows);
    if (focused) /** @type {HTMLElement | null} */ (this.list.querySelector(`[aria-posinset="${Number(focused)}"] :is(a, button)`))?.focus({ preventScroll: true });
  }
}

/** @param {string} resource @param {number} amount CPU in milli, all else in whole units */
export function amount(resource, amount) {
  if (resource === "cpu") return thousands(+(amount / 1000).toFixed(amount < 10000 ? 2 : 0));
  if (!/memory|storage|hugepages/.test(resource)) return thousands(amount);
  let unit = 0;
  while (amount >= 1024 && unit < 5) { amount /= 1024; unit++; }
  return `${+amount.toFixed(amount < 10 ? 1 : 0)}${["", "Ki", "Mi", "Gi", "Ti", "Pi"][unit]}`;
}

/** @param {number} seconds */
export function duration(seconds) {
  for (const [unit, length] of /** @type {[string, number][]} */ ([["d", 86400], ["h", 3600], ["m", 60]])) {
    if (seconds >= 2 * length) return `${Math.floor(seconds / length)} ${unit}`;
  }
  return `${Math.max(0, Math.floor(seconds))} s`;
}

/** The formats of days and times, made when the first one is shown: most views show none. @type {{day: Intl.DateTimeFormat, time: Intl.DateTimeFormat} | undefined} */
let formats;
const formatted = () => formats ??= {
  day: new Intl.DateTimeFormat("en-CA"),
  time: new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hour12: false }),
};
/** The day of a time, as 2026-11-28. @param {number} at seconds */
export const day = (at) => formatted().day.format(new Date(at * 1000));
/** The time of day with milliseconds, after the day unless it is today. @param {number} at seconds */
export const clock = (at) => `${new Date(at * 1000).toDateString() === new Date().toDateString() ? "" : `${day(at)} `}${formatted().time.format(new Date(at * 1000))}`;

/** @param {string} key `namespace/name` */
export const podLink = (key) => document.getElementById("report") ? el("span", { class: "cut", title: key }, name(key)) : el("a", { href: `#/pod/${encodeURIComponent(key)}`, class: "cut", title: key }, name(key));

/** A message without what the row says already: the number of nodes, and the name of the group. @param {string} message */
export const brief = (message) => message.replace(/^0\/\d+ nodes are available: |^the group \S+ does not fit: /, "");

/** @param {string} text */
export const failed = (text) => el("p", { class: "error", role: "alert" }, text);
