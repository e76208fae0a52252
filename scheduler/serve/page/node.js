// One node: its pods with their requests, its devices, labels and taints; requested when it is opened.
import { amount, el, failed, many, name, podLink } from "./dom.js";
import { ask, report } from "./feed.js";

/** @param {any} unit the node's record @returns {HTMLElement} */
export function node(unit) {
  const element = el("div", { class: "node" }, el("h2", {}, name(unit.name)));
  if (report) return element;
  const body = el("div", {}, el("p", { class: "sub" }, "Reading the node…"));
  element.append(body);
  ask(`api/node?name=${encodeURIComponent(unit.name)}`).then(
    (answer) => body.replaceChildren(...sections(answer, unit)),
    (error) => body.replaceChildren(failed(error instanceof Error ? error.message : String(error))),
  );
  return element;
}

/** @param {any} answer @param {any} unit @returns {HTMLElement[]} */
function sections(answer, unit) {
  const resources = Object.keys(unit.room).filter((one) => unit.room[one][1] > 0);
  const pods = answer.pods.map((/** @type {any} */ pod) => el("tr", {},
    el("td", {}, podLink(pod.key)), el("td", {}, pod.group && name(pod.group)), el("td", { class: "num" }, pod.priority || ""),
    ...resources.map((one) => el("td", { class: "num" }, pod.asks[one] ? amount(one, pod.asks[one]) : ""))));
  const devices = answer.devices.map((/** @type {any} */ one) => el("tr", {},
    el("td", {}, name(`${one.pool}/${one.name}`)), el("td", {}, name(one.is)), el("td", {}, ...one.claims.map((/** @type {string} */ claim) => el("div", {}, name(claim))))));
  return [
    el("h3", {}, many(answer.pods.length, "pod")),
    pods.length ? el("div", { class: "scroll" }, el("table", {}, head(["Pod", "Group", "Priority", ...resources], 2), el("tbody", {}, ...pods))) : el("p", { class: "sub" }, "No pod is bound to this node."),
    ...(devices.length ? [el("h3", {}, many(devices.length, "device")), el("div", { class: "scroll" }, el("table", {}, head(["Device", "Attributes", "Claim"], 3), el("tbody", {}, ...devices)))] : []),
    ...(answer.taints.length ? [el("h3", {}, "Taints"), chips(answer.taints)] : []),
    el("h3", {}, "Labels"), chips(Object.entries(answer.labels).map(([key, value]) => `${key}=${value}`)),
  ];
}

/** @param {string[]} titles @param {number} texts the number of columns with text; the others have numbers */
const head = (titles, texts) => el("thead", {}, el("tr", {}, ...titles.map((title, at) => el("th", { scope: "col", class: at < texts ? null : "num" }, title))));

/** @param {string[]} texts */
const chips = (texts) => el("ul", { class: "place top" }, ...texts.map((text) => el("li", {}, name(text))));
