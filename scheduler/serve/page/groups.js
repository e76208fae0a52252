// Groups: where their members are, what is proven of the placement, or what they wait for.
import { el, failed, many, name, podLink } from "./dom.js";
import { known } from "./feed.js";
import { planning } from "./plan.js";

const MOST = 300;
const KINDS = new Map([["Bound", "good"], ["Completed", ""], ["Waiting", "warn"], ["DoesNotFit", "bad"], ["Failed", "bad"]]);

/** @returns {{element: HTMLElement, update: () => void}} */
export function groups() {
  const body = el("div", { class: "cards" }, el("p", { class: "empty" }, "Planning what waits…"));
  const filter = /** @type {HTMLInputElement} */ (el("input", { type: "search", id: "filter", oninput: show }));
  const count = el("p", { class: "sub" });
  const element = el("div", { class: "view" },
    el("div", { class: "head" }, el("h1", {}, "Groups"), count, el("span", { class: "grow" }), el("label", { for: "filter" }, "Name"), filter), body);
  const plan = planning(show);
  function show() {
    if (plan.problem) return body.replaceChildren(failed(plan.problem));
    if (!plan.answer) return;
    const wanted = plan.answer.groups.filter((/** @type {any} */ one) => `${one.namespace}/${one.name}`.includes(filter.value));
    count.textContent = `${wanted.length} of ${plan.answer.groups.length}${wanted.length > MOST ? `, the first ${MOST} shown` : ""}`;
    /** @type {Map<string, number>} */ const members = new Map();
    for (const [, pod] of known.pods) if (pod.group) members.set(pod.group, (members.get(pod.group) ?? 0) + 1);
    body.replaceChildren(...wanted.slice(0, MOST).map((/** @type {any} */ one) => card(one, members)));
    if (!wanted.length) body.append(el("p", { class: "empty" }, "No groups. Pods become one by a PodGroup, a ConfigMap of a group, or their owner's labels."));
  }
  return { element, update: plan.refresh };
}

/** @param {any} group @param {Map<string, number>} members how many pods there are of each */
function card(group, members) {
  const placed = count(group.placement.root ?? {});
  const kind = KINDS.get(group.status) ?? "warn";
  return el("article", { class: "card group" },
    el("h2", {}, name(`${group.namespace}/${group.name}`), el("span", { class: `tag ${kind}` }, group.status)),
    el("p", { class: "sub" }, `${placed} of ${group.minimum}${group.maximum === null ? " or more" : group.maximum === group.minimum ? "" : ` to ${group.maximum}`} members placed · from ${group.source}`),
    placed > 0 && el("div", {}, tree(group.placement.root, true), el("details", {}, el("summary", {}, "Every member"), tree(group.placement.root, false))),
    group.objective.length > 0 && el("p", { class: "sub" }, group.optimal ? "Proven best: " : "Not proven best: ", el("span", { class: "num" }, costs(group))),
    group.conflict.length > 1 && el("div", {}, el("p", {}, "These rules and requests exclude one another:"), el("ul", {}, ...group.conflict.map((/** @type {string} */ rule) => el("li", {}, name(rule))))),
    why(group, placed, members) && el("p", {}, name(why(group, placed, members))),
    group.victims.length > 0 && el("details", {}, el("summary", {}, `${many(group.victims.length, "pod")} to go for it`), el("ul", {}, ...group.victims.map((/** @type {any} */ one) => el("li", {}, podLink(`${one.namespace}/${one.name}`))))));
}

/** What a group waits for: the whole message of its condition. @param {any} group @param {number} placed @param {Map<string, number>} members */
function why(group, placed, members) {
  if (group.message || placed >= group.minimum) return group.message;
  // An incomplete group has no message of its own.
  const there = members.get(`${group.namespace}/${group.name}`) ?? 0;
  return there < group.minimum ? `Waits for its members: ${there} of ${group.minimum} are there.` : "";
}

/** @param {any} units @returns {number} the pods below, its innermost names */
function count(units) {
  return Object.values(units).reduce((sum, below) => sum + (Object.keys(below).length ? count(below) : 1), 0);
}

/** @param {any} units @param {boolean} isTop only the topmost units, with how many are in each @returns {HTMLElement} */
function tree(units, isTop) {
  return el("ul", { class: isTop ? "place top" : "place" }, ...Object.entries(units).map(([key, below]) =>
    el("li", {}, name(key), Object.keys(below).length ? (isTop ? el("strong", { class: "num" }, ` × ${count(below)}`) : tree(below, false)) : null)));
}

/** Return the values of a placement and the proven limits, without those of which nothing is proven. @param {any} group @returns {string} */
function costs(group) {
  const values = `cost ${group.objective.join(", ")}`;
  if (!group.bound.some((/** @type {number|null} */ one) => one !== null)) return values;
  return `${values}; no placement costs less than ${group.bound.map((/** @type {number|null} */ one) => one ?? "(nothing is proven)").join(", ")}`;
}
