// A report: the figures of both results, and the pods with different results, with their scores.
import { el, many, name, Rows } from "./dom.js";
import { report } from "./feed.js";
import { compared } from "./figures.js";

/** @returns {{element: HTMLElement, update: () => void}} */
export function moved() {
  const filter = /** @type {HTMLInputElement} */ (el("input", { type: "search", id: "filter", oninput: show }));
  const count = el("p", { class: "sub" });
  const plugins = [...new Set(report.pods.flatMap((/** @type {any} */ one) => one.scores.flatMap((/** @type {any} */ side) => Object.keys(side))))].sort();
  const list = /** @type {Rows<any>} */ (new Rows("Pods with a different result", 92, "change", row));
  const legend = el("ul", { class: "swatches", "aria-label": "Score by plugin" }, ...plugins.map((plugin, index) => el("li", {}, el("i", { class: `s${index % 8}` }), plugin)));
  const card = el("div", { class: "card list" }, el("div", { class: "titles change", "aria-hidden": "true" }, el("span", {}, "Pod"), ...report.sides.map((/** @type {any} */ side) => el("span", {}, side.title))), list.element);
  const element = el("div", { class: "view" },
    el("div", { class: "head" }, el("h1", {}, report.pods.length ? `${many(report.pods.length, "pod")} ${report.pods.length === 1 ? "has" : "have"} a different result` : "No pod has a different result"), count, el("span", { class: "grow" }), el("label", { for: "filter" }, "Name or reason", filter)),
    compared([report.sides[0].figures, report.sides[1].figures], [report.sides[0].title, report.sides[1].title]), ...(report.pods.length ? [legend, card] : []));

  function show() {
    const wanted = report.pods.filter((/** @type {any} */ one) => !filter.value || JSON.stringify([one.pod, one.before, one.after]).includes(filter.value));
    count.textContent = `${wanted.length} of them shown, ${report.same} others have the same result`;
    list.show(wanted);
  }

  /** @param {any} one */
  function row(one) {
    const most = Math.max(1, ...one.scores.map(total));
    return [el("strong", { class: "two", title: one.pod }, name(one.pod)), side(one.before, one.scores[0], most), side(one.after, one.scores[1], most)];
  }

  /** @param {any} result @param {Record<string, number>} scores @param {number} most */
  function side(result, scores, most) {
    if (!result) return el("span", { class: "sub" }, "not there");
    const words = plugins.filter((one) => one in scores).map((one) => `${one} ${scores[one]}`).join(", ");
    return el("div", {}, el("span", { class: "cut", title: result.node ?? result.message }, el("span", { class: `tag ${result.node ? "good" : "bad"}` }, result.node ? "placed" : result.result), " ", name(result.node ?? result.message)),
      words && el("div", { class: "stack", role: "img", "aria-label": words, title: words }, ...plugins.map((plugin, index) => {
        const bar = el("span", { class: `s${index % 8}` });
        bar.style.width = `${(100 * (scores[plugin] ?? 0)) / most}%`;
        return bar;
      })),
      result.victims.length > 0 && el("span", { class: "sub cut" }, `in place of ${many(result.victims.length, "pod")}`));
  }

  show();
  return { element, update: () => {} };
}

/** @param {Record<string, number>} scores */
const total = (scores) => Object.values(scores).reduce((sum, one) => sum + one, 0);
