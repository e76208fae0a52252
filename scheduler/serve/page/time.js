// Time: a slider over the decisions that are kept; every view then shows the moment that it stands at.
import { cluster } from "./cluster.js";
import { el, failed, name, podLink, Rows } from "./dom.js";
import { ask, link, travel } from "./feed.js";

const AGAIN_MS = 5000;
/** @typedef {{at: number, until: number, times: number, pod: string, node: string | null, message: string, victims: string[]}} Moment */

/** @returns {{element: HTMLElement, update: () => void}} */
export function time() {
  /** @type {Moment[]} */ let moments = [];
  let last = 0, isAsking = false, isTravelling = false, wanted = -1;
  const slider = /** @type {HTMLInputElement} */ (el("input", { type: "range", id: "moment", min: 0, max: 0, value: 0, oninput: () => go(Number(slider.value)) }));
  const when = el("output", { for: "moment", class: "when" });
  const summary = el("p", { class: "sub", "aria-live": "polite" });
  const back = /** @type {HTMLButtonElement} */ (el("button", { onclick: () => go(moments.length) }, "Now"));
  const problem = el("div");
  const list = /** @type {Rows<Moment>} */ (new Rows("Decisions", 58, "moment", row));
  const map = cluster("", false);
  const card = el("div", { class: "card" }, el("div", { class: "head" }, el("h1", {}, el("label", { for: "moment" }, "Time")), when, summary, el("span", { class: "grow" }), back), slider);
  const decisions = el("div", { class: "card list" }, list.element);
  const empty = el("p", { class: "empty" }, "Reading decisions…");
  const element = el("div", { class: "view" }, problem, empty, card, el("div", { class: "past" }, map.element, decisions));
  card.hidden = decisions.hidden = true;

  /** @param {number} index the decision just made; past the last one is now */
  async function go(index) {
    wanted = index;
    if (isTravelling) return; // the one under way goes on to where the slider is by then
    isTravelling = true;
    try {
      for (let at = -1; at !== wanted;) {
        at = wanted;
        await travel(at < moments.length ? moments[at].at : null);
      }
      problem.replaceChildren();
    } catch (error) {
      problem.replaceChildren(failed(error instanceof Error ? error.message : String(error)));
    }
    isTravelling = false;
    show();
  }

  const place = () => (link.at === null ? moments.length : Math.max(0, moments.findLastIndex((one) => one.at <= /** @type {number} */ (link.at))));

  function show() {
    const at = place(), moment = moments[at];
    card.hidden = decisions.hidden = !moments.length;
    empty.hidden = moments.length > 0;
    slider.max = String(moments.length);
    if (!isTravelling) slider.value = String(at);
    back.disabled = link.at === null;
    when.textContent = moment ? clock(moment.at) : "Now";
    slider.setAttribute("aria-valuetext", moment ? `${clock(moment.at)}, ${moment.pod}` : "now");
    summary.textContent = moment ? `${moment.pod} ${moment.node ? `goes to ${moment.node}` : moment.message}` : `${moments.length} decisions, from ${moments.length ? clock(moments[0].at) : "–"}`;
    list.show(moments);
    if (moment) list.reveal(at);
  }

  async function refresh() {
    if (isAsking || !link.live || (last && (link.at !== null || performance.now() - last < AGAIN_MS))) return;
    isAsking = true;
    try {
      moments = (await ask("api/moments")).moments;
      empty.textContent = "No decisions are recorded here. The daemon's page (/ui) and trellis ui --decision-log show the past.";
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
      el("div", {}, podLink(moment.pod), el("button", { class: "cut num", onclick: () => go(index), "aria-current": index === place() ? "true" : null }, clock(moment.at))),
      el("div", { title: moment.message }, el("span", { class: `tag ${moment.node ? "good" : "bad"}` }, moment.node ? "placed" : "waits"),
        el("span", { class: "sub cut" }, name(moment.node ?? moment.message), moment.times > 1 ? ` (${moment.times} times)` : "", moment.victims.length ? ` in place of ${moment.victims.length} pods` : "")),
    ];
  }

  return { element, update: () => { refresh(); map.update(); } };
}

const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hour12: false });

/** @param {number} at seconds */
function clock(at) {
  const date = new Date(at * 1000), today = new Date().toDateString();
  return `${date.toDateString() === today ? "" : `${date.toLocaleDateString()} `}${TIME.format(date)}`;
}
