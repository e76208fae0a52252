// What if: a manifest or a configuration to try, and what moves. Nothing is written to the cluster.
import { el, failed, many, name, podLink } from "./dom.js";
import { ask } from "./feed.js";

const MOST = 500;
/** What was typed stays while other views are looked at. */
const typed = { manifests: "", config: "" };

/** @returns {{element: HTMLElement, update: () => void}} */
export function whatif() {
  const field = (/** @type {"manifests" | "config"} */ key, /** @type {string} */ hint) => {
    const area = /** @type {HTMLTextAreaElement} */ (el("textarea", { id: key, spellcheck: "false", placeholder: hint, oninput: () => { typed[key] = area.value; } }));
    area.value = typed[key];
    return area;
  };
  const button = /** @type {HTMLButtonElement} */ (el("button", { class: "main", onclick: tryIt }, "Try it"));
  const result = el("div", { class: "view", "aria-live": "polite" });
  const element = el("div", { class: "view" }, el("div", { class: "head" }, el("h1", {}, "What if"), el("p", { class: "sub grow" }, "Calculated for the displayed cluster. Nothing is written to it."), button),
    el("div", { class: "side" },
      el("section", { class: "card" }, el("h2", {}, el("label", { for: "manifests" }, "Objects to add, or to put in place of those of their name")), field("manifests", "apiVersion: batch/v1\nkind: Job\n…")),
      el("section", { class: "card" }, el("h2", {}, el("label", { for: "config" }, "Another configuration of the scheduler")), field("config", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n…"))), result);

  async function tryIt() {
    button.disabled = true;
    result.replaceChildren(el("p", { class: "empty" }, "Placing…"));
    try {
      result.replaceChildren(...moved(await ask("api/whatif", typed)));
    } catch (error) {
      result.replaceChildren(failed(error instanceof Error ? error.message : String(error)));
    }
    button.disabled = false;
  }
  return { element, update: () => {} };
}

/** @param {any} answer */
function moved({ diff, after }) {
  const differ = diff.pods;
  return [
    el("section", { class: "card" }, el("h2", {}, differ.length ? `${many(differ.length, "pod")} ${differ.length === 1 ? "fares" : "fare"} differently` : "Nothing would differ"),
      el("dl", { class: "facts" }, fact("Placed before", diff.summary.before.scheduled), fact("Placed after", diff.summary.after.scheduled), fact("Left waiting", after.summary.unschedulable), fact("Network cost before", diff.summary.before.networkCost), fact("Network cost after", diff.summary.after.networkCost))),
    ...(differ.length ? [el("section", { class: "card scroll", tabindex: 0, role: "group", "aria-label": "Pods that fare differently" }, el("table", {},
      el("thead", {}, el("tr", {}, ...["Pod", "Before", "After"].map((one) => el("th", { scope: "col" }, one)))),
      el("tbody", {}, ...differ.slice(0, MOST).map((/** @type {any} */ one) => el("tr", {}, el("td", {}, podLink(`${one.namespace}/${one.name}`)), el("td", {}, side(one.before)), el("td", {}, side(one.after)))))),
      differ.length > MOST && el("p", { class: "sub" }, `The first ${MOST} are shown.`))] : []),
  ];
}

/** @param {any} one */
function side(one) {
  if (!one) return "not there";
  if (one.node) return el("span", {}, el("span", { class: "tag good" }, "placed"), " ", name(one.node), one.victims.length ? ` in place of ${many(one.victims.length, "pod")}` : "");
  return el("span", {}, el("span", { class: "tag bad" }, one.result), " ", name(one.message));
}

/** @param {string} label @param {string | number} value */
const fact = (label, value) => el("div", {}, el("dt", {}, label), el("dd", { class: "num" }, value));
