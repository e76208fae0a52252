// What the colours of the cluster view stand for: amounts (requests, measured load, NUMA zones) or categories
// (the group, namespace or priority with most pods on a node; nodes that are wholly free).
import { natural } from "./dom.js";
import { known } from "./feed.js";

/** `of` is "room", "load", "zones" or a category. @typedef {{id: string, of: string, resource: string, label: string}} Shade */
/** Used, and all. @typedef {[number, number]} Pair */
/** A category of nodes; `rank` is its place by `nodes`, how many nodes have it; `colour` is the number of a colour. @typedef {{label: string, rank: number, colour: number, nodes: number}} Category */

/** What the colours of each kind mean, for the legend. @type {Record<string, string>} */
export const MEANING = { room: "requested", load: "in use, as measured", zones: "taken in NUMA zones" };
const LABEL = { room: "requested", load: "in use", zones: "by NUMA zone" };
const CATEGORIES = { group: "by group", namespace: "by namespace", priority: "by priority", free: "free whole nodes" };
/** Colours for categories; those of lower rank share the last one. */
export const COLOURS = 8;
/** Kinds of amounts for which a high share is trouble: full of requests is the goal, full of load is not. */
export const ALARMING = new Set(["load"]);

/** @param {Shade} shade */
export const isCategory = (shade) => shade.of in CATEGORIES;

/** All that can be shown of the cluster, the scarcest resource first. @param {any} whole the unit of the whole @returns {Shade[]} */
export function shades(whole) {
  const load = new Set(), zones = new Set();
  for (const one of known.measures.values()) {
    for (const resource of Object.keys(one.load ?? {})) load.add(resource);
    for (const [, taken] of one.zones ?? []) for (const resource of Object.keys(taken)) zones.add(resource);
  }
  const there = Object.keys(whole.room);
  return [
    ...there.map((one) => shade("room", one)), ...there.filter((one) => load.has(one)).map((one) => shade("load", one)), ...[...zones].sort().map((one) => shade("zones", one)),
    ...Object.entries(CATEGORIES).map(([of, label]) => ({ id: of, of, resource: scarcest(whole), label })),
  ];
}

/** The resource of which the greatest share is requested. @param {any} whole @returns {string} */
export function scarcest(whole) {
  const share = (/** @type {string} */ one) => (whole.room[one][1] ? whole.room[one][0] / whole.room[one][1] : -1);
  return Object.keys(whole.room).reduce((best, one) => (share(one) > share(best) ? one : best), "cpu");
}

/** @param {keyof typeof LABEL} of @param {string} resource @returns {Shade} */
const shade = (of, resource) => ({ id: `${of}:${resource}`, of, resource, label: `${resource} ${LABEL[of]}` });

/** The zones of a node with what is taken of each. @param {string} node @param {string} resource @returns {[string, Pair][]} */
export function zonesOf(node, resource) {
  const listed = known.measures.get(node)?.zones ?? [];
  return listed.filter((/** @type {any} */ [, taken]) => taken[resource]).map((/** @type {any} */ [zone, taken]) => [zone, taken[resource]]);
}

/** What is known of one node; a node of which nothing is known has nothing. @param {any} unit @param {Shade} chosen @returns {Pair | undefined} */
function ofNode(unit, chosen) {
  if (chosen.of === "free") return [isFree(unit, chosen.resource) ? 1 : 0, 1];
  if (chosen.of === "load") {
    const used = known.measures.get(unit.name)?.load?.[chosen.resource], room = unit.room[chosen.resource];
    return used === undefined || !room ? undefined : [used, room[1]];
  }
  const zones = zonesOf(unit.name, chosen.resource);
  return zones.length ? zones.reduce((sum, [, one]) => [sum[0] + one[0], sum[1] + one[1]], /** @type {Pair} */ ([0, 0])) : undefined;
}

/** Whether new pods may come to a node of which nothing is requested. @param {any} unit @param {string} resource */
export const isFree = (unit, resource) => !unit.closed && unit.room[resource]?.[1] > 0 && !unit.room[resource][0];

/** By the key of each unit what is used of what there is, where that is known. @param {Shade} chosen @returns {(key: string) => Pair | undefined} */
export function used(chosen) {
  if (chosen.of === "room" || (isCategory(chosen) && chosen.of !== "free")) return (key) => known.units.get(key)?.room[chosen.resource];
  /** @type {Map<string, Pair>} */ const sums = new Map();
  for (const [own, unit] of known.units) {
    const pair = unit.level === "node" ? ofNode(unit, chosen) : undefined;
    if (!pair) continue;
    for (/** @type {string | null} */ let key = own; key; key = known.units.get(key)?.parent ?? null) {
      const sum = sums.get(key);
      if (sum) { sum[0] += pair[0]; sum[1] += pair[1]; } else sums.set(key, [pair[0], pair[1]]);
    }
  }
  return (key) => sums.get(key);
}

/** The category of each node by its name, and all categories, the most frequent first. @param {Shade} chosen @returns {{of: (node: string) => Category | undefined, all: Category[]}} */
export function categories(chosen) {
  /** @type {Map<string, string>} */ const label = chosen.of === "free" ? freeNodes(chosen.resource) : dominant(chosen.of);
  /** @type {Map<string, Category>} */ const found = new Map();
  for (const one of label.values()) {
    const category = found.get(one);
    if (category) category.nodes++; else found.set(one, { label: one, rank: 0, colour: 0, nodes: 1 });
  }
  const all = [...found.values()].sort((a, b) => b.nodes - a.nodes || natural(a.label, b.label));
  all.forEach((one, rank) => { one.rank = rank; one.colour = Math.min(rank, COLOURS - 1); });
  return { of: (node) => found.get(label.get(node) ?? ""), all };
}

/** @param {string} resource @returns {Map<string, string>} */
function freeNodes(resource) {
  const found = new Map();
  for (const unit of known.units.values()) if (unit.level === "node" && isFree(unit, resource)) found.set(unit.name, "free");
  return found;
}

/** By node, the group, namespace or priority that most of its pods have. @param {string} of @returns {Map<string, string>} */
function dominant(of) {
  /** @type {Map<string, Map<string, number>>} */ const counts = new Map();
  for (const [key, pod] of known.pods) {
    const label = of === "group" ? pod.group : of === "namespace" ? key.split("/")[0] : `priority ${pod.priority ?? 0}`;
    if (!pod.node || !label) continue;
    const those = counts.get(pod.node) ?? new Map();
    counts.set(pod.node, those.set(label, (those.get(label) ?? 0) + 1));
  }
  return new Map([...counts].map(([node, those]) => [node, [...those].reduce((best, one) => (one[1] > best[1] ? one : best))[0]]));
}
