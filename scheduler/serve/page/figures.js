// The figures of two results, side by side: of a report, and of a change that is tried.
import { amount, el, thousands } from "./dom.js";

/** @param {[any, any]} figures @param {[string, string]} titles @returns {HTMLElement} */
export function compared([before, after], titles) {
  const share = (/** @type {number | null | undefined} */ one) => (one === null || one === undefined ? "–" : `${(100 * one).toFixed(1)} %`);
  const text = (/** @type {number | string} */ one) => (typeof one === "number" ? thousands(one) : one);
  /** @type {[string, any, any][]} */
  const rows = [["Pods placed", before.placed, after.placed], ["Pods left waiting", before.waiting, after.waiting],
    ["Nodes without pods", before.emptyNodes, after.emptyNodes], ["Groups", before.groups, after.groups], ["Groups not proven best", before.unproven, after.unproven]];
  if (before.networkCost || after.networkCost) rows.push(["Network cost", before.networkCost, after.networkCost]);
  for (const resource of Object.keys(after.resources)) {
    const [one, other] = [before.resources[resource], after.resources[resource]];
    const asked = (/** @type {any} */ use) => (use ? `${amount(resource, use.requested)} of ${amount(resource, use.allocatable)}` : "–");
    rows.push([`${resource} requested`, asked(one), asked(other)],
      [`${resource}: standard deviation of node utilization`, share(one?.balance), share(other.balance)],
      [`${resource}: fragmentation`, share(one?.fragmentation), share(other.fragmentation)]);
  }
  return el("section", { class: "card scroll", tabindex: 0, role: "group", "aria-label": "Figures" }, el("table", {},
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Figure"), ...titles.map((title) => el("th", { scope: "col", class: "num" }, title)))),
    el("tbody", {}, ...rows.map(([label, one, other]) => el("tr", {}, el("th", { scope: "row" }, label), el("td", { class: "num" }, text(one)), el("td", { class: "num" }, String(one) === String(other) ? text(other) : el("strong", {}, text(other))))))));
}
