// Waiting pods in queue order, a group as one row: since when, for what, why, and what would happen now.
import { amount, brief, duration, el, many, name, podLink, Rows } from "./dom.js";
import { known } from "./feed.js";
import { planning } from "./plan.js";

/** A row: a pod, or the waiting pods of a group, of which `pods[0]` is the first in the queue. @typedef {{key: string, pods: [string, any][], isGroup: boolean, isMember?: boolean}} Item */

/** @returns {{element: HTMLElement, update: () => void}} */
export function queue() {
  const filter = /** @type {HTMLInputElement} */ (el("input", { type: "search", id: "filter", placeholder: "name or reason", oninput: show }));
  const count = el("p", { class: "sub" });
  const problem = el("div");
  const list = /** @type {Rows<Item>} */ (new Rows("Waiting pods", 76, "wait", row));
  const empty = el("p", { class: "empty" }, "No pod is waiting.");
  const element = el("div", { class: "view" },
    el("div", { class: "head" }, el("h1", {}, "Queue"), count, el("span", { class: "grow" }), el("label", { for: "filter" }, "Name or reason"), filter),
    problem,
    el("div", { class: "card list" }, el("div", { class: "titles wait", "aria-hidden": "true" }, el("span", {}, "#"), el("span", {}, "Pod or group"), el("span", {}, "Waits"), el("span", {}, "Requests"), el("span", {}, "Reason, outcome of an attempt now, and what triggers the next one")), empty, list.element));
  const plan = planning(show);
  /** @type {Map<string, number>} */ let position = new Map();
  /** @type {Map<string, number>} the place of each row, a group's for all its pods */ let place = new Map();
  /** @type {Map<string, any>} */ let outcome = new Map();
  /** @type {Set<string>} groups whose members are listed */ const open = new Set();

  function show() {
    position = new Map((plan.answer?.queueOrder ?? []).map((/** @type {string} */ key, /** @type {number} */ index) => [key, index + 1]));
    outcome = new Map((plan.answer?.pods ?? []).map((/** @type {any} */ pod) => [`${pod.namespace}/${pod.name}`, pod]));
    problem.replaceChildren(...(plan.problem ? [el("p", { class: "notice" }, `The outcome of an attempt now is unknown: ${plan.problem}`)] : []));
    /** @type {[string, any][]} */ const waiting = [];
    for (const entry of known.pods) if (!entry[1].node) waiting.push(entry);
    const wanted = waiting.filter(([key, pod]) => !filter.value || key.includes(filter.value) || pod.group?.includes(filter.value) || why(key, pod).includes(filter.value));
    wanted.sort(([a, one], [b, other]) => (position.get(a) ?? 1e9) - (position.get(b) ?? 1e9) || (one.since ?? 0) - (other.since ?? 0) || (a < b ? -1 : 1));
    const items = folded(wanted);
    const groups = items.filter((one) => one.isGroup).length;
    const inQueue = items.filter((one) => position.has(one.pods[0][0]) && (one.isGroup || !one.isMember));
    place = new Map(inQueue.map((one, index) => [one.key, index + 1]));
    count.textContent = `${wanted.length} of ${many(waiting.length, "waiting pod")}${groups ? `, ${many(groups, "group")}` : ""}`;
    empty.hidden = wanted.length > 0;
    list.element.hidden = !wanted.length;
    list.show(items);
  }

  /** A row for each pod and each group, at the place of its first pod; members follow an open group. @param {[string, any][]} pods @returns {Item[]} */
  function folded(pods) {
    /** @type {Map<string, Item>} */ const groups = new Map();
    const items = [];
    for (const entry of pods) {
      const group = entry[1].group;
      const known = groups.get(group);
      if (known) { known.pods.push(entry); continue; }
      const item = { key: group ?? entry[0], pods: [entry], isGroup: Boolean(group) };
      if (group) groups.set(group, item);
      items.push(item);
    }
    return items.flatMap((item) => (item.isGroup && open.has(item.key) ? [item, ...item.pods.map((/** @type {[string, any]} */ entry) => ({ key: entry[0], pods: [entry], isGroup: false, isMember: true }))] : [item]));
  }

  /** @param {string} key @param {any} pod @returns {string} */
  function why(key, pod) {
    const now = outcome.get(key);
    if (pod.gates) return `On hold by scheduling gates: ${pod.gates.join(", ")}`;
    if (now?.result === "Scheduled") return `Would be bound to ${now.node}${now.victims.length ? ` after the eviction of ${many(now.victims.length, "pod")}` : ""}`;
    if (now) return now.message || now.result;
    return pod.message || (plan.answer ? `Waits for another scheduler: ${pod.scheduler}` : "");
  }

  /** What of a row is said: all of a group's pods may go to different nodes. @param {Item} item @returns {string} */
  function reason({ pods, isGroup }) {
    const [key, pod] = pods[0];
    const scheduled = pods.filter(([one]) => outcome.get(one)?.result === "Scheduled").length;
    if (!isGroup || !scheduled) return why(key, pod);
    return `${scheduled} of ${many(pods.length, "pod")} would be bound now`;
  }

  /** What would have a pod tried again. @param {string} key @returns {string} */
  function wake(key) {
    const after = outcome.get(key)?.wokenBy ?? [];
    return after.length ? `Tried again after ${after.join("; ")}` : "";
  }

  /** @param {Item} item */
  function toggle({ key }) {
    if (!open.delete(key)) open.add(key);
    show();
  }

  /** @param {Item} item */
  function row(item) {
    const [key, pod] = item.pods[0];
    const at = known.about.get("about")?.at ?? 0;
    const said = reason(item);
    const since = item.pods.reduce((least, [, one]) => (one.since === null ? least : Math.min(least, one.since)), Infinity);
    /** @type {Map<string, number>} */ const asks = new Map();
    for (const [, one] of item.pods) for (const [resource, much] of Object.entries(one.asks)) asks.set(resource, (asks.get(resource) ?? 0) + much);
    const title = item.isGroup ? el("button", { class: "cut", onclick: () => toggle(item), "aria-expanded": String(open.has(item.key)) }, name(item.key)) : podLink(key);
    return [
      el("span", { class: "num sub" }, place.get(item.key) ?? ""),
      el("div", {}, title, el("span", { class: "sub cut rank" }, item.isGroup ? `group, ${many(item.pods.length, "pod")} · ` : "", `priority ${pod.priority}`, !item.isGroup && pod.group ? " · " : "", !item.isGroup && pod.group && name(pod.group))),
      el("span", { class: "num" }, since === Infinity ? "–" : duration(at - since)),
      el("span", { class: "asks sub two" }, [...asks].filter(([, much]) => much > 0).map(([one, much]) => `${one} ${amount(one, much)}`).join(", ") || "nothing"),
      el("div", { class: "said" },
        el("span", { class: "two", title: said }, name(brief(said))),
        el("span", { class: "sub cut", title: wake(key) }, name(wake(key)))),
    ];
  }

  return { element, update: () => { plan.refresh(); show(); } };
}
