// One pod: where it is or would go, and how nodes differ for it: equal nodes are one row.
import { duration, el, failed, many, name, natural, podLink, Rows, thousands } from "./dom.js";
import { ask, known, link } from "./feed.js";

const MOST_FOUND = 12;

/** @param {string} rest `namespace/name`, or nothing yet @returns {{element: HTMLElement, update: () => void}} */
export function pod(rest) {
  const search = /** @type {HTMLInputElement} */ (el("input", { type: "search", id: "search", placeholder: "namespace/name", oninput: find }));
  const found = el("div");
  const body = el("div", { class: "view" });
  const element = el("div", { class: "view" },
    el("div", { class: "head" }, el("h1", {}, rest ? name(rest) : "Pod"), el("span", { class: "grow" }), el("label", { for: "search" }, rest ? "Another pod" : "Name"), search), found, body);
  /** @type {number | null | undefined} the moment of the answer */ let asked;

  function find() {
    const keys = [];
    /** @type {Map<string, number>} a group is listed once, by its first pod */ const groups = new Map();
    const isNew = (/** @type {any} */ one) => {
      if (search.value || !one.group) return true;
      groups.set(one.group, (groups.get(one.group) ?? 0) + 1);
      return groups.get(one.group) === 1;
    };
    if (search.value || !rest) {
      // Pods that wait are what people look for.
      for (const [key, one] of known.pods) if (!one.node && key.includes(search.value) && isNew(one) && keys.length < MOST_FOUND) keys.push(key);
      if (keys.length < MOST_FOUND) for (const [key, one] of known.pods) if (one.node && key.includes(search.value) && isNew(one)) { keys.push(key); if (keys.length >= MOST_FOUND) break; }
    }
    found.replaceChildren(...(keys.length ? [el("section", { class: "card scroll" }, el("h2", {}, search.value ? "Found" : "Choose a pod: those that wait come first"), el("table", { class: "found" }, el("tbody", {}, ...keys.map((key) => choice(key, groups.get(known.pods.get(key)?.group) ?? 1)))))] : search.value ? [el("p", { class: "sub" }, "No pod name contains this text.")] : []));
  }

  /** @param {string} key @param {number} members pods of its group that this row stands for */
  function choice(key, members) {
    const one = known.pods.get(key) ?? {};
    return el("tr", {}, el("td", {}, podLink(key), members > 1 && el("span", { class: "sub" }, `and ${members - 1} more of ${one.group}`)), el("td", {}, el("span", { class: `tag ${one.node ? "good" : "warn"}` }, one.node ? "placed" : "waits")),
      el("td", {}, el("span", { class: "sub two", title: one.node ?? one.message ?? "" }, name(one.node ?? one.message ?? ""))));
  }

  async function update() {
    if (!rest) return search.value ? undefined : find();
    if (asked === link.at || !link.live) return;
    asked = link.at;
    body.replaceChildren(el("p", { class: "empty" }, "Evaluating every plugin on every node…"));
    try {
      const answer = await ask(`api/explain?pod=${encodeURIComponent(rest)}`);
      body.replaceChildren(...explained(answer.explanation, answer.notices));
    } catch (error) {
      body.replaceChildren(failed(error instanceof Error ? error.message : String(error)));
    }
  }
  return { element, update };
}

/** @param {any} found @param {string[]} notices */
function explained(found, notices) {
  const plugins = [...new Set(found.nodes.flatMap((/** @type {any} */ node) => Object.keys(node.scores)))].sort();
  const fits = found.nodes.filter((/** @type {any} */ one) => one.feasible);
  // A plugin with one score on all nodes that fit says nothing about them.
  const differing = plugins.filter((one) => new Set(fits.map((/** @type {any} */ node) => node.scores[one]?.weighted)).size > 1);
  const equal = plugins.filter((one) => !differing.includes(one));
  const nodes = [...found.nodes].sort((one, other) => Number(other.name === found.node) - Number(one.name === found.node) || Number(other.feasible) - Number(one.feasible) || (other.total ?? 0) - (one.total ?? 0) || natural(one.name, other.name));
  const rows = folded(nodes, found);
  const most = Math.max(1, ...fits.map((/** @type {any} */ node) => differing.reduce((sum, one) => sum + (node.scores[one]?.weighted ?? 0), 0)));
  const list = /** @type {Rows<any>} */ (new Rows("Nodes", 72, "score", ({ node, nodes: alike }) => [
    el("div", {}, el("strong", { class: "cut", title: node.name }, name(node.name), alike > 1 ? ` and ${thousands(alike - 1)} more` : ""),
      node.name === found.node ? el("span", { class: "tag good" }, "chosen") : node.name === found.currentNode ? el("span", { class: "tag" }, "is here") : node.feasible ? el("span", { class: "tag" }, "fits") : el("span", { class: "tag bad" }, node.rejectedBy ?? "rejected")),
    el("span", { class: "num" }, node.total ?? ""),
    el("div", {}, node.total === null || !differing.length ? null : bars(node, differing, most), el("span", { class: "two sub", title: reasons(node) }, name(reasons(node)))),
  ]));
  list.show(rows);
  const why = found.why;
  const head = el("section", { class: "card" },
    el("h2", {}, el("span", { class: `tag ${found.node ? "good" : "bad"}` }, found.result), " ", why && name(why.sentence)),
    points(found),
    el("p", { class: "sub" }, `Profile ${found.profile}${found.nodes.length ? ` · fits ${fits.length} of ${many(nodes.length, "node")}` : ""}`),
    ...notices.map((text) => el("p", { class: "notice" }, text)));
  const legend = el("ul", { class: "swatches", "aria-label": "Score by plugin" }, ...differing.map((plugin, index) => el("li", {}, el("i", { class: `s${index % 8}` }), plugin)),
    fits.length > 1 && equal.length > 0 && el("li", { class: "sub" }, `Equal on all nodes that fit: ${equal.join(", ")}`));
  if (!found.nodes.length) return [head];
  return [head, ...(fits.length ? [legend] : []), el("div", { class: "card list" }, el("div", { class: "titles score", "aria-hidden": "true" }, el("span", {}, "Node"), el("span", {}, "Score"), el("span", {}, "Scores by plugin, with reasons")), list.element)];
}

/** A row for each set of nodes that differ in nothing. @param {any[]} nodes @param {any} found @returns {{node: any, nodes: number}[]} */
function folded(nodes, found) {
  /** @type {Map<string, {node: any, nodes: number}>} */ const rows = new Map();
  for (const node of nodes) {
    const isNamed = node.name === found.node || node.name === found.currentNode;
    const key = isNamed ? node.name : JSON.stringify([node.feasible, node.rejectedBy, reasons(node), node.total, Object.entries(node.scores).map(([one, score]) => [one, /** @type {any} */ (score).weighted])]);
    const row = rows.get(key);
    if (row) row.nodes++; else rows.set(key, { node, nodes: 1 });
  }
  return [...rows.values()];
}

/** The facts behind the summary, and remedies. @param {any} found */
function points(found) {
  const why = found.why ?? {};
  const queue = why.queue, victims = found.victims;
  /** @type {[string, import("./dom.js").Child[]][]} */ const facts = [
    ["Conflicts", (found.group ? [] : why.conflict ?? []).map((/** @type {any} */ one) => el("li", {}, "no node ", name(one.text), " ", el("code", {}, name(one.field))))],
    ["What would help", (why.suggestions ?? []).map((/** @type {any} */ one) => el("li", {}, name(one.text)))],
    ["Would be evicted for it", victims.slice(0, 10).map((/** @type {any} */ one) => el("li", {}, podLink(`${one.namespace}/${one.name}`))).concat(victims.length > 10 ? [el("li", {}, `and ${victims.length - 10} more`)] : [])],
    ["Eviction", why.preemption && !found.message.includes(why.preemption) ? [el("li", {}, name(why.preemption))] : []],
    ["Tried again after", why.wokenBy?.length ? [el("li", {}, name(why.wokenBy.join("; ")))] : []],
    ["Next best", why.runnerUp?.behind ? [el("li", {}, name(why.runnerUp.node), `, ${why.runnerUp.behind} points behind: ${Object.entries(why.runnerUp.plugins).map(([plugin, gap]) => `${plugin} ${gap}`).join(", ")}`)] : []],
    ["Queue", queue && !found.node ? [el("li", {}, `${queue.place} of ${queue.waiting}${queue.waitedSeconds === null ? "" : `, for ${duration(queue.waitedSeconds)}`}`)] : []],
    ["Condition", found.message && !found.node && !why.sentence?.includes(found.message) ? [el("li", {}, name(found.message))] : []],
  ];
  const some = facts.filter(([, lines]) => lines.length);
  return some.length > 0 && el("dl", { class: "points" }, ...some.flatMap(([title, lines]) => [el("dt", {}, title), el("dd", {}, el("ul", {}, ...lines))]));
}

/** @param {any} node @returns {string} */
function reasons(node) {
  const against = Object.entries(node.plugins).filter(([, one]) => one.reasons.length).map(([plugin, one]) => `${plugin}: ${one.reasons.join(", ")}`);
  return node.why || against.join("; ") || node.reasons.join(", ");
}

/** @param {any} node @param {string[]} plugins @param {number} most */
function bars(node, plugins, most) {
  const words = plugins.filter((one) => node.scores[one]).map((one) => `${one} ${node.scores[one].weighted}`).join(", ");
  return el("div", { class: "stack", role: "img", "aria-label": words, title: words }, ...plugins.map((plugin, index) => {
    const bar = el("span", { class: `s${index % 8}` });
    bar.style.width = `${(100 * (node.scores[plugin]?.weighted ?? 0)) / most}%`;
    return bar;
  }));
}
