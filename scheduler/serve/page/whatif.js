// What if: other nodes, a workload or a configuration to try, and both results side by side. Nothing is written to the cluster.
import { amount, brief, el, failed, many, name, natural, podLink } from "./dom.js";
import { ask, known } from "./feed.js";
import { compared } from "./figures.js";
import { inRacks } from "./racks.js";
import { WORKLOAD, manifestOf } from "./workload.js";

const MOST = 100;
/** Nodes of so many shapes are offered to add. */
const SHAPES = 12;
/** What was typed remains when the view changes. */
const typed = { manifests: "", config: "", count: "", model: "", rack: "", node: "" };

/** @returns {{element: HTMLElement, update: () => void}} */
export function whatif() {
  const button = /** @type {HTMLButtonElement} */ (el("button", { class: "main", onclick: tryIt }, "Try it"));
  const result = el("div", { class: "view", "aria-live": "polite" });
  const manifests = area("manifests", "apiVersion: batch/v1\nkind: Job\n…");
  const count = input("count", { type: "number", min: 1, max: 5000, placeholder: "0", class: "few" });
  const models = choice("model"), racks = choice("rack");
  const names = el("datalist", { id: "nodes" });
  const drained = input("node", { type: "text", list: "nodes", placeholder: "name of a node", autocomplete: "off" });
  const element = el("div", { class: "view" },
    el("div", { class: "head" }, el("h1", {}, "What if"), el("p", { class: "sub grow" }, "Calculated for the displayed cluster. Nothing is written to it."), button),
    el("div", { class: "side" },
      el("section", { class: "card form" }, el("h2", {}, "Nodes"),
        row("Add", "count", count, el("span", {}, "like"), models),
        row("Remove rack", "rack", racks),
        row("Drain node", "node", drained, names)),
      workload()),
    el("div", { class: "side" },
      el("section", { class: "card" }, el("h2", {}, el("label", { for: "manifests" }, "Objects to add, or to put in place of those of their name")), manifests),
      el("section", { class: "card" }, el("h2", {}, el("label", { for: "config" }, "Another configuration of the scheduler")), area("config", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n…"))), result);
  let listed = {};

  /** @param {string} label @param {string} to @param {...Node} fields */
  function row(label, to, ...fields) { return el("p", { class: "row" }, el("label", { for: to }, label), ...fields); }

  /** @param {"manifests" | "config"} key @param {string} hint */
  function area(key, hint) {
    const made = /** @type {HTMLTextAreaElement} */ (el("textarea", { id: key, spellcheck: "false", placeholder: hint, oninput: () => { typed[key] = made.value; } }));
    made.value = typed[key];
    return made;
  }

  /** @param {"count" | "node"} key @param {Record<string, any>} more */
  function input(key, more) {
    const made = /** @type {HTMLInputElement} */ (el("input", { id: key, oninput: () => { typed[key] = made.value; }, ...more }));
    made.value = typed[key];
    return made;
  }

  /** @param {"model" | "rack"} key */
  function choice(key) {
    const made = /** @type {HTMLSelectElement} */ (el("select", { id: key, "aria-label": key === "model" ? "Model of the added nodes" : null, onchange: () => { typed[key] = made.value; } }));
    return made;
  }

  /** A form that writes a manifest, and a file that has one. */
  function workload() {
    const fields = WORKLOAD.map(({ key, label, type, value }) => {
      const made = /** @type {HTMLInputElement} */ (el("input", { id: `w-${key}`, type, value: type === "checkbox" ? null : value, min: type === "number" ? 0 : null, class: type === "checkbox" ? null : "few" }));
      return { key, made, line: el("label", { for: `w-${key}` }, label, made) };
    });
    const write = () => put(manifestOf(Object.fromEntries(fields.map(({ key, made }) => [key, made.type === "checkbox" ? made.checked : made.value])), resources()));
    const file = /** @type {HTMLInputElement} */ (el("input", { type: "file", id: "file", accept: ".yaml,.yml,.json", onchange: async () => { if (file.files?.length) put(await file.files[0].text()); } }));
    return el("section", { class: "card form" }, el("h2", {}, "Workload"), el("p", { class: "fields" }, ...fields.map((one) => one.line)),
      el("p", { class: "row" }, el("button", { onclick: write }, "Write its manifest"), el("label", { for: "file" }, "or read a file"), file));
  }

  /** @param {string} text */
  function put(text) {
    typed.manifests = manifests.value = text;
    manifests.scrollIntoView({ block: "nearest" });
  }

  const resources = () => Object.keys(known.units.get("/")?.room ?? {});

  function update() {
    if (listed === known.units && models.length) return;
    listed = known.units;
    const nodes = [...known.units.values()].filter((one) => one.level === "node");
    /** @type {Map<string, {unit: any, count: number}>} */ const shapes = new Map();
    for (const unit of nodes) {
      const key = JSON.stringify(Object.entries(unit.room).map(([one, [, all]]) => [one, all]));
      const shape = shapes.get(key);
      if (shape) shape.count++; else shapes.set(key, { unit, count: 1 });
    }
    const largest = [...shapes.values()].sort((a, b) => b.count - a.count).slice(0, SHAPES);
    models.replaceChildren(...largest.map(({ unit, count }) => el("option", { value: unit.name }, `${unit.name} (${Object.entries(unit.room).filter(([, [, all]]) => all > 0).map(([one, [, all]]) => `${amount(one, all)} ${one}`).join(", ")}; ${many(count, "node")})`)));
    const above = new Set(nodes.map((one) => one.parent));
    const named = [...above].map((key) => known.units.get(key)).filter((one) => one && /(^|[./-])rack$/.test(one.level) && one.name).map((one) => one.name).sort(natural);
    racks.replaceChildren(el("option", { value: "" }, named.length ? "none" : "no node names its rack"), ...named.map((one) => el("option", { value: one }, one)));
    names.replaceChildren(...nodes.map((one) => el("option", { value: one.name })));
    if (typed.model) models.value = typed.model;
    racks.value = typed.rack;
  }

  async function tryIt() {
    button.disabled = true;
    result.replaceChildren(el("p", { class: "empty" }, "Placing…"));
    const body = {
      manifests: typed.manifests, config: typed.config,
      added: Number(typed.count) > 0 ? [`${Number(typed.count)}=${models.value}`] : [],
      racks: typed.rack ? [typed.rack] : [],
      drained: typed.node ? [`kubernetes.io/hostname=${typed.node}`] : [],
    };
    try {
      result.replaceChildren(...moved(await ask("api/whatif", body)));
    } catch (error) {
      result.replaceChildren(failed(error instanceof Error ? error.message : String(error)));
    }
    button.disabled = false;
    result.scrollIntoView({ block: "nearest" });
  }
  return { element, update };
}

/** @param {any} answer */
function moved({ diff, figures, notices }) {
  const rows = folded(diff.pods);
  const still = rows.filter((one) => rank(one) === 2), changed = rows.filter((one) => rank(one) < 2);
  return [
    el("h2", {}, diff.pods.length ? `${many(diff.pods.length, "pod")} ${diff.pods.length === 1 ? "has" : "have"} a different result` : "No pod has a different result"),
    ...notices.map((/** @type {string} */ text) => el("p", { class: "notice" }, text)),
    el("div", { class: "side" },
      compared(figures, ["Before", "After"]),
      rows.length > 0 && el("section", { class: "card scroll", tabindex: 0, role: "group", "aria-label": "Pods with a different result" },
        changed.length ? listed(changed) : el("p", { class: "sub" }, "No pod gains, changes or loses its node."),
        still.length > 0 && el("details", {}, el("summary", {}, `${many(still.reduce((sum, one) => sum + one.pods.length, 0), "pod")} without a node on both sides, for another reason`), listed(still)))),
  ];
}

/** @param {{title: string, pods: any[]}[]} rows */
function listed(rows) {
  return el("div", {}, el("table", { class: "found sides" },
    el("thead", {}, el("tr", {}, ...["Pod or group", "Before", "After"].map((one) => el("th", { scope: "col" }, one)))),
    el("tbody", {}, ...rows.slice(0, MOST).map((one) => el("tr", {}, el("td", {}, one.pods.length > 1 ? el("span", {}, name(one.title), ` × ${one.pods.length}`) : podLink(keyOf(one.pods[0]))), el("td", {}, side(one.pods, "before")), el("td", {}, side(one.pods, "after")))))),
    rows.length > MOST && el("p", { class: "sub" }, `The first ${MOST} of ${rows.length} rows.`));
}

/** @param {any} one */
const keyOf = (one) => `${one.namespace}/${one.name}`;

/** A row for each pod, one for the pods of a group with equal results, and one for all other pods of a namespace that have a node on both sides. A pod that gains or loses its node comes first. @param {any[]} pods @returns {{title: string, pods: any[]}[]} */
function folded(pods) {
  /** @type {Map<string, {title: string, pods: any[]}>} */ const found = new Map();
  for (const one of pods) {
    const group = one.group ?? known.pods.get(keyOf(one))?.group;
    const isMoved = state(one, "before") === "node" && state(one, "after") === "node";
    const title = group ?? (isMoved ? `${one.namespace}: pods` : keyOf(one));
    const key = JSON.stringify([title, state(one, "before"), state(one, "after")]);
    const row = found.get(key);
    if (row) row.pods.push(one); else found.set(key, { title, pods: [one] });
  }
  return [...found.values()].sort((a, b) => rank(a) - rank(b));
}

/** 0 for pods that gain or lose their node, 1 for those with a node on both sides, 2 for those without; a pod that is on one side only has a result worth listing. @param {{pods: any[]}} row */
function rank({ pods: [one] }) {
  const [before, after] = [state(one, "before"), state(one, "after")];
  if (before === "node" && after === "node") return 1;
  return before && after && before !== "node" && after !== "node" ? 2 : 0;
}

/** Whether a pod has a node on a side, else its message. @param {any} one @param {"before" | "after"} at @returns {string} */
function state(one, at) {
  if (one[at]) return one[at].node ? "node" : one[at].message || one[at].result;
  return at === "before" && known.pods.get(keyOf(one))?.node ? "node" : "";
}

/** Pods with equal results on one side. A pod that need not be placed before is on its node. @param {any[]} pods @param {"before" | "after"} at */
function side(pods, at) {
  const [one] = pods, own = one[at];
  const text = state(one, at);
  if (!text) return el("span", { class: "sub" }, "not there");
  if (text !== "node") return el("span", {}, el("span", { class: "tag bad" }, own.result), " ", name(brief(text)));
  const nodes = pods.map((each) => each[at]?.node ?? known.pods.get(keyOf(each))?.node);
  const victims = own ? own.victims.length : 0;
  return el("span", {}, el("span", { class: "tag good" }, own ? "placed" : "on"), " ", name(inRacks(nodes)), victims ? ` in place of ${many(victims, "pod")}` : "");
}
