// Time: the recorded decisions on an axis of time; every view shows the chosen moment.
import { cluster } from "./cluster.js";
import { brief, clock, day, el, failed, name, podLink, Rows, svg } from "./dom.js";
import { ask, link, travel } from "./feed.js";

const AGAIN_MS = 5000;
const STEP_MS = 700;
/** Steps of the slider over the decisions; one more is now. */
const STEPS = 1000, NOW = STEPS + 1;
/** Distances of ticks, in seconds; the shortest that gives at most `TICKS` is used. */
const DISTANCES = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 86400, 604800];
const TICKS = 8;
/** Markers closer than this share of the axis are one. */
const FINEST = 1 / 400;
/** @typedef {{at: number, until: number, times: number, pod: string, node: string | null, message: string, victims: string[]}} Moment */

/** @returns {{element: HTMLElement, update: () => void}} */
export function time() {
  /** @type {Moment[]} */ let moments = [];
  /** @type {{at: number, isLeading: boolean}[]} */ let leading = [];
  let last = 0, isAsking = false, isTravelling = false, wanted = -1, drawn = "";
  /** @type {number | undefined} */ let playing;
  const slider = /** @type {HTMLInputElement} */ (el("input", { type: "range", id: "moment", min: 0, max: NOW, value: NOW, oninput: () => { stop(); go(indexOf(Number(slider.value))); } }));
  const when = el("output", { for: "moment", class: "when" });
  const summary = el("p", { class: "sub cut grow", "aria-live": "polite" });
  const step = (/** @type {string} */ text, /** @type {number} */ by, /** @type {string} */ label) => /** @type {HTMLButtonElement} */ (el("button", { "aria-label": label, title: label, onclick: () => { stop(); go(Math.min(moments.length, Math.max(0, place() + by))); } }, text));
  const [before, next] = [step("‹", -1, "The decision before"), step("›", 1, "The next decision")];
  const play = /** @type {HTMLButtonElement} */ (el("button", { onclick: toggle }, "Play"));
  const back = /** @type {HTMLButtonElement} */ (el("button", { onclick: () => { stop(); go(moments.length); } }, "Now"));
  const axis = el("div", { class: "axis" });
  const changes = el("span", { hidden: true });
  const problem = el("div");
  const list = /** @type {Rows<Moment>} */ (new Rows("Decisions", 58, "moment", row));
  const map = cluster("", false);
  const card = el("div", { class: "card" },
    el("div", { class: "head" }, el("h1", {}, el("label", { for: "moment" }, "Time")), when, summary, el("span", { class: "steps" }, before, play, next, back)),
    axis, slider,
    el("p", { class: "swatches" }, el("span", {}, el("i", { class: "m0" }), "placed"), el("span", {}, el("i", { class: "m1" }), "not placed"), el("span", {}, el("i", { class: "m2" }), "with evictions"), changes));
  const decisions = el("div", { class: "card list" }, list.element);
  const past = el("div", { class: "past" }, map.element, decisions);
  const empty = el("p", { class: "empty" }, "Reading decisions…");
  const nothing = el("section", { class: "card" }, empty);
  const element = el("div", { class: "view" }, problem, nothing, card, past);
  card.hidden = past.hidden = true;

  function stop() {
    clearInterval(playing);
    playing = undefined;
    play.textContent = "Play";
  }

  /** Show one decision after the other, from the first at the end. */
  function toggle() {
    if (playing !== undefined) return stop();
    if (place() >= moments.length) go(0);
    play.textContent = "Pause";
    playing = setInterval(() => {
      if (!element.isConnected || place() >= moments.length) return stop();
      if (!isTravelling) go(place() + 1);
    }, STEP_MS);
  }

  /** @param {number} index the decision just made; past the last one is now */
  async function go(index) {
    wanted = index;
    if (isTravelling) return; // the one in progress goes on to where the slider is by then
    isTravelling = true;
    try {
      for (let at = -1; at !== wanted;) {
        at = wanted;
        await travel(at < moments.length ? moments[at].at : null);
      }
      problem.replaceChildren();
    } catch (error) {
      stop();
      problem.replaceChildren(failed(error instanceof Error ? error.message : String(error)));
    }
    isTravelling = false;
    show();
  }

  const place = () => (link.at === null ? moments.length : Math.max(0, moments.findLastIndex((one) => one.at <= /** @type {number} */ (link.at))));

  function show() {
    const at = place(), moment = moments[at];
    card.hidden = past.hidden = !moments.length;
    nothing.hidden = moments.length > 0;
    if (!isTravelling) slider.value = String(moment ? STEPS * share(moment.at) : NOW);
    back.disabled = next.disabled = link.at === null;
    before.disabled = at === 0;
    when.textContent = moment ? clock(moment.at) : "Now";
    slider.setAttribute("aria-valuetext", moment ? `${clock(moment.at)}, ${moment.pod}` : "now");
    summary.textContent = moment ? `${moment.pod} ${moment.node ? `goes to ${moment.node}` : moment.message}` : `${moments.length} decisions, from ${moments.length ? clock(moments[0].at) : "–"}`;
    const latest = leading[leading.length - 1];
    changes.hidden = !latest;
    if (latest) changes.replaceChildren(el("i", { class: "m3" }), `${leading.length > 1 ? `${leading.length} changes of the leader; ` : ""}this scheduler ${latest.isLeading ? "leads since" : "ceased to lead at"} ${clock(latest.at)}`);
    draw(moment);
    list.show(moments);
    if (moment) list.reveal(at);
  }

  /** The place of a time between the first decision (0) and the last (1). @param {number} at */
  function share(at) {
    const [start, end] = [moments[0].at, moments[moments.length - 1].at];
    return end > start ? Math.min(1, Math.max(0, (at - start) / (end - start))) : 1;
  }

  /** The last decision made by a step of the slider. @param {number} value */
  const indexOf = (value) => (value > STEPS ? moments.length : Math.max(0, moments.findLastIndex((one) => STEPS * share(one.at) <= value)));

  /** The axis: ticks with their times, a marker for each decision, and the displayed moment. @param {Moment | undefined} moment */
  function draw(moment) {
    const key = JSON.stringify([moments.length, moments[0]?.at, moment?.at, leading]);
    if (!moments.length || key === drawn) return;
    drawn = key;
    const [start, end] = [moments[0].at, moments[moments.length - 1].at];
    const span = end - start, x = share;
    const distance = DISTANCES.find((one) => span / one <= TICKS) ?? span / TICKS;
    const ticks = [];
    for (let at = Math.ceil(start / distance) * distance; at <= end; at += distance) ticks.push(at);
    /** @type {Map<string, {kind: number, at: number, count: number}>} */ const marks = new Map();
    for (const one of moments) {
      const kind = one.victims.length ? 2 : one.node ? 0 : 1, key = `${kind} ${Math.round(x(one.at) / FINEST)}`;
      const mark = marks.get(key);
      if (mark) mark.count++; else marks.set(key, { kind, at: x(one.at), count: 1 });
    }
    // The more decisions a marker stands for, the stronger it is.
    const most = Math.max(...[...marks.values()].map((one) => one.count));
    const strength = (/** @type {number} */ count) => 0.6 + 0.4 * count / most;
    axis.replaceChildren(svg("svg", { viewBox: "0 0 1000 30", preserveAspectRatio: "none", "aria-hidden": "true" },
      ...ticks.map((at) => svg("line", { class: "tick", x1: 1000 * x(at), x2: 1000 * x(at), y1: 0, y2: 30 })),
      ...[...marks.values()].map(({ kind, at, count }) => svg("rect", { class: `m${kind}`, x: 1000 * at - 1, y: [2, 12, 22][kind], width: 2.5, height: 7, opacity: strength(count) })),
      ...leading.map(({ at, isLeading }) => svg("rect", { class: isLeading ? "m3" : "m3 end", x: 1000 * x(at) - 1, y: 0, width: 2.5, height: 30 })),
      moment && svg("rect", { class: "here", x: 1000 * x(moment.at) - 1, y: 0, width: 2, height: 30 })),
    ...ticks.map((at) => { const text = el("span", { class: "time" }, tick(at, distance)); text.style.left = `${100 * x(at)}%`; return text; }));
  }

  async function refresh() {
    if (isAsking || !link.live || (last && (link.at !== null || performance.now() - last < AGAIN_MS))) return;
    isAsking = true;
    try {
      ({ moments, leading = [] } = await ask("api/moments"));
      empty.replaceChildren("No decisions are recorded here. The daemon's page (", el("code", {}, "/ui"), ") and ", el("code", {}, "trellis ui --decision-log FILE"), " show the past.");
      problem.replaceChildren();
    } catch (error) {
      problem.replaceChildren(failed(error instanceof Error ? error.message : String(error)));
    }
    last = performance.now();
    isAsking = false;
    show();
  }

  /** @param {Moment} moment @param {number} index */
  function row(moment, index) {
    return [
      el("div", {}, podLink(moment.pod), el("button", { class: "cut num", onclick: () => { stop(); go(index); }, "aria-current": index === place() ? "true" : null }, clock(moment.at))),
      el("div", { title: moment.message }, el("span", { class: `tag ${moment.node ? "good" : "warn"}` }, moment.node ? "placed" : "waits"),
        el("span", { class: "sub cut" }, name(moment.node ?? brief(moment.message)), moment.times > 1 ? ` (${moment.times} times)` : "", moment.victims.length ? ` in place of ${moment.victims.length} pods` : "")),
    ];
  }

  return { element, update: () => { refresh(); map.update(); } };
}

/** The text of a tick, as exact as the distance of ticks. @param {number} at @param {number} distance */
function tick(at, distance) {
  if (distance >= 86400) return day(at);
  // A multiple of a tenth may lie just below its millisecond.
  const text = clock(at + 0.0005).split(" ").at(-1) ?? "";
  return distance >= 60 ? text.slice(0, 5) : distance >= 1 ? text.slice(0, 8) : text.slice(0, 10);
}
