// Who waits, since when, for what; what was said last, what would happen now, and what would have it tried again.
import { amount, duration, el, many, name, podLink, Rows } from "./dom.js";
import { known } from "./feed.js";
import { planning } from "./plan.js";

/** @returns {{element: HTMLElement, update: () => void}} */
export function queue() {
  const filter = /** @type {HTMLInputElement} */ (el("input", { type: "search", id: "filter", oninput: show }));
  const count = el("p", { class: "sub" });
  const problem = el("div");
  const list = /** @type {Rows<[string, any]>} */ (new Rows("Waiting pods", 84, "wait", row));
  const empty = el("p", { class: "empty" }, "Nobody waits.");
  const element = el("div", { class: "view" },
    el("div", { class: "head" }, el("h1", {}, "Queue"), count, el("span", { class: "grow" }), el("label", { for: "filter" }, "Name or reason"), filter),
    problem,
    el("div", { class: "card list" }, el("div", { class: "titles wait", "aria-hidden": "true" }, el("span", {}, "#"), el("span", {}, "Pod"), el("span", {}, "Waits"), el("span", {}, "Asks for"), el("span", {}, "Why, what would happen now, and after what it is tried again")), empty, list.element));
  const plan = planning(show);
  /** @type {Map<string, number>} */ let position = new Map();
  /** @type {Map<string, any>} */ let outcome = new Map();

  function show() {
    position = new Map((plan.answer?.queueOrder ?? []).map((/** @type {string} */ key, /** @type {number} */ index) => [key, index + 1]));
    outcome = new Map((plan.answer?.pods ?? []).map((/** @type {any} */ pod) => [`${pod.namespace}/${pod.name}`, pod]));
    problem.replaceChildren(...(plan.problem ? [el("p", { class: "notice" }, `What would happen now is not known: ${plan.problem}`)] : []));
    /** @type {[string, any][]} */ const waiting = [];
    for (const entry of known.pods) if (!entry[1].node) waiting.push(entry);
    const wanted = waiting.filter(([key, pod]) => !filter.value || key.includes(filter.value) || why(key, pod).includes(filter.value));
    wanted.sort(([a, one], [b, other]) => (position.get(a) ?? 1e9) - (position.get(b) ?? 1e9) || (one.since ?? 0) - (other.since ?? 0) || (a < b ? -1 : 1));
    count.textContent = `${wanted.length} of ${waiting.length} waiting pods`;
    empty.hidden = wanted.length > 0;
    list.element.hidden = !wanted.length;
    list.show(wanted);
  }

  /** @param {string} key @param {any} pod @returns {string} */
  function why(key, pod) {
    const now = outcome.get(key);
    if (pod.gates) return `Held by scheduling gates: ${pod.gates.join(", ")}`;
    if (now?.result === "Scheduled") return `Would go to ${now.node}${now.victims.length ? ` in place of ${many(now.victims.length, "pod")}` : ""}`;
    if (now) return now.message || now.result;
    return pod.message || (plan.answer ? `Waits for another scheduler: ${pod.scheduler}` : "");
  }

  /** What would have a pod tried again. @param {string} key @returns {string} */
  function wake(key) {
    const after = outcome.get(key)?.wokenBy ?? [];
    return after.length ? `Tried again after ${after.join("; ")}` : "";
  }

  /** @param {[string, any]} entry */
  function row([key, pod]) {
    const at = known.about.get("about")?.at ?? 0;
    return [
      el("span", { class: "num sub" }, position.get(key) ?? "–"),
      el("div", {}, podLink(key), el("span", { class: "sub cut rank" }, `priority ${pod.priority}`, pod.group ? " · " : "", pod.group && name(pod.group))),
      el("span", { class: "num" }, pod.since === null ? "–" : duration(at - pod.since)),
      el("span", { class: "asks sub two" }, Object.entries(pod.asks).filter(([, much]) => much > 0).map(([one, much]) => `${one} ${amount(one, much)}`).join(", ") || "nothing"),
      el("div", { class: "said" },
        el("span", { class: "two", title: why(key, pod) }, name(why(key, pod))),
        el("span", { class: "sub cut", title: wake(key) }, name(wake(key)))),
    ];
  }

  return { element, update: () => { plan.refresh(); show(); } };
}
