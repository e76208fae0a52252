// Groups as a table, waiting ones first: domains of members, proof, and the reason for waiting.
import { amount, brief, duration, el, failed, many, name, natural, podLink } from "./dom.js";
import { known } from "./feed.js";
import { planning } from "./plan.js";
import { rack } from "./racks.js";

const MOST = 300;
const KINDS = new Map([["Bound", "good"], ["Completed", ""], ["Fits", "good"], ["Waiting", "warn"], ["DoesNotFit", "bad"], ["Invalid", "bad"], ["Missing", "bad"]]);
const FEW = 4;

/** Data of a group's pods: `since` when the first one waits, `bound` when the last one was bound. @typedef {{count: number, since: number | null, bound: number | null, priority: number, asks: Map<string, number>}} Members */

/** @returns {{element: HTMLElement, update: () => void}} */
export function groups() {
  const rows = el("tbody");
  const table = el("table", { class: "groups" }, el("thead", {}, el("tr", {}, ...["Group", "Status", "Members", "Where", "Proof", "Since", "Message"].map((title) => el("th", { scope: "col", class: ["Members", "Since"].includes(title) ? "num" : null }, title)))), rows);
  const body = el("div", { class: "card scroll" }, el("p", { class: "empty" }, "Planning the waiting groups…"));
  const filter = /** @type {HTMLInputElement} */ (el("input", { type: "search", id: "filter", placeholder: "namespace/name", oninput: show }));
  const count = el("p", { class: "sub" });
  const element = el("div", { class: "view" },
    el("div", { class: "head" }, el("h1", {}, "Groups"), count, el("span", { class: "grow" }), el("label", { for: "filter" }, "Name"), filter), body);
  const plan = planning(show);

  function show() {
    if (plan.problem) return body.replaceChildren(failed(plan.problem));
    if (!plan.answer) return;
    const members = membersOf();
    const wanted = plan.answer.groups.filter((/** @type {any} */ one) => keyOf(one).includes(filter.value));
    // The plan lists the statuses in their order.
    const rank = new Map([...new Set(wanted.map((/** @type {any} */ one) => one.shown))].map((status, at) => [status, at]));
    wanted.sort((/** @type {any} */ a, /** @type {any} */ b) => (rank.get(a.shown) ?? 0) - (rank.get(b.shown) ?? 0) || (members.get(keyOf(b))?.priority ?? 0) - (members.get(keyOf(a))?.priority ?? 0) || natural(keyOf(a), keyOf(b)));
    const waiting = wanted.filter((/** @type {any} */ one) => one.waits).length;
    count.textContent = `${many(wanted.length, "group")}, ${waiting} waiting${wanted.length > MOST ? `; the first ${MOST} are listed` : ""}`;
    const open = new Set([...rows.querySelectorAll("details[open]")].map((one) => one.getAttribute("data-key")));
    rows.replaceChildren(...wanted.slice(0, MOST).map((/** @type {any} */ one) => row(one, members.get(keyOf(one)))));
    for (const one of rows.querySelectorAll("details")) if (open.has(one.getAttribute("data-key"))) one.setAttribute("open", "");
    body.replaceChildren(wanted.length ? table : el("p", { class: "empty" }, "No groups. A pod joins a group by a PodGroup, the ConfigMap of a group, or the labels of its owner."));
  }
  return { element, update: () => { plan.refresh(); show(); } };
}

/** @param {any} group */
const keyOf = (group) => `${group.namespace}/${group.name}`;

/** Per group: number of pods, their times, and requests. @returns {Map<string, Members>} */
function membersOf() {
  /** @type {Map<string, Members>} */ const found = new Map();
  for (const pod of known.pods.values()) {
    if (!pod.group) continue;
    const those = found.get(pod.group) ?? { count: 0, since: null, bound: null, priority: 0, asks: new Map() };
    found.set(pod.group, those);
    those.count++;
    those.priority = Math.max(those.priority, pod.priority ?? 0);
    if (pod.since && pod.node) those.bound = Math.max(those.bound ?? pod.since, pod.since);
    else if (pod.since) those.since = Math.min(those.since ?? pod.since, pod.since);
    for (const [resource, much] of Object.entries(pod.asks ?? {})) those.asks.set(resource, (those.asks.get(resource) ?? 0) + much);
  }
  return found;
}

/** @param {any} group @param {Members | undefined} members */
function row(group, members) {
  const placed = count(group.placement.root ?? {});
  const status = group.shown, isMissing = status === "Missing";
  const needed = isMissing || status === "Invalid" ? many(members?.count ?? 0, "pod") : `${placed + (group.finished ?? 0)} of ${group.maximum === null ? "at least " : ""}${group.minimum}`;
  const at = known.about.get("about")?.at ?? 0, since = members?.since ?? members?.bound;
  const most = isMissing || group.maximum === null || group.maximum === group.minimum ? "" : `–${group.maximum}`;
  const asks = [...(members?.asks ?? [])].filter(([, much]) => much > 0).map(([one, much]) => `${one} ${amount(one, much)}`).join(", ");
  return el("tr", {},
    el("td", {}, el("strong", {}, name(keyOf(group))), el("div", { class: "sub" }, `${group.source || "described by no object"}${members?.priority ? ` · priority ${members.priority}` : ""}`)),
    el("td", {}, el("span", { class: `tag ${KINDS.get(status) ?? "warn"}` }, status)),
    el("td", { class: "num" }, `${needed}${most}`, asks && el("div", { class: "sub" }, asks)),
    el("td", {}, placed > 0 && where(group)),
    el("td", { class: "proof" }, proof(group)),
    el("td", { class: "num" }, since ? duration(at - since) : ""),
    el("td", { class: "message" }, ...message(group)));
}

/** The number of members per rack; every member on demand. @param {any} group */
function where(group) {
  const units = [...racks(group.placement.root)].sort(([a], [b]) => natural(a, b));
  return el("details", { "data-key": `in ${keyOf(group)}` },
    el("summary", {}, ...units.slice(0, FEW).flatMap(([unit, pods], at) => [at ? ", " : "", name(unit), ` × ${pods}`]), units.length > FEW ? ` and ${units.length - FEW} more` : ""),
    tree(group.placement.root));
}

/** Members by the unit above their node, or by node where there is no such unit. @param {any} units @param {Map<string, number>} [found] @returns {Map<string, number>} */
function racks(units, found = new Map()) {
  for (const [key, below] of Object.entries(units)) {
    const isNode = Object.values(below).every((one) => !Object.keys(/** @type {any} */ (one)).length);
    const unit = isNode ? rack(key) : "";
    if (isNode) found.set(unit, (found.get(unit) ?? 0) + count(below)); else racks(below, found);
  }
  return found;
}

/** The proof of a placement in words. @param {any} group @returns {string} */
function proof(group) {
  if (group.conflict.length) return "proven not to fit";
  if (!group.objective.length) return "";
  const used = group.terms.flatMap((/** @type {string} */ term, /** @type {number} */ at) => (term.endsWith(" units") ? [many(group.objective[at], term.slice(0, -6).split("/").pop() ?? "")] : []));
  const text = used.length ? `: ${used.join(", ")}` : "";
  if (group.optimal) return `proven best${text}`;
  const gaps = group.objective.map((/** @type {number} */ value, /** @type {number} */ at) => (group.bound[at] === null || group.bound[at] === undefined ? null : value - group.bound[at]));
  const open = gaps.findIndex((/** @type {number | null} */ gap) => gap !== 0);
  return `best found${text}${open >= 0 && gaps[open] !== null && group.terms[open] ? `; ${group.terms[open]} at most ${gaps[open]} from the best` : ""}`;
}

/** The reason for waiting: the message of the group's condition, conflicting rules, and victims. @param {any} group @returns {(HTMLElement | string)[]} */
function message(group) {
  const parts = [];
  if (group.message) parts.push(name(brief(group.message)));
  if (group.conflict.length > 1) parts.push(el("details", { "data-key": `rules ${keyOf(group)}` }, el("summary", {}, `${group.conflict.length} rules in conflict`), el("ul", {}, ...group.conflict.map((/** @type {string} */ rule) => el("li", {}, name(rule))))));
  if (group.victims.length) parts.push(el("details", { "data-key": `victims ${keyOf(group)}` }, el("summary", {}, `evicts ${many(group.victims.length, "pod")}`), el("ul", {}, ...group.victims.map((/** @type {any} */ one) => el("li", {}, podLink(`${one.namespace}/${one.name}`))))));
  return parts;
}

/** @param {any} units @returns {number} the pods below, its innermost names */
function count(units) {
  return Object.values(units).reduce((sum, below) => sum + (Object.keys(below).length ? count(below) : 1), 0);
}

/** @param {any} units @returns {HTMLElement} */
function tree(units) {
  return el("ul", { class: "place" }, ...Object.entries(units).map(([key, below]) => el("li", {}, name(key), Object.keys(below).length ? tree(below) : null)));
}
