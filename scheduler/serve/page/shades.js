// What colours stand for: what pods request, what is measured on nodes, what NUMA zones report as taken.
import { known } from "./feed.js";

/** `of` is "room", "load" or "zones". @typedef {{id: string, of: string, resource: string, label: string}} Shade */
/** Used, and all. @typedef {[number, number]} Pair */

/** What the colours of each kind mean, for the legend. @type {Record<string, string>} */
export const MEANING = { room: "requested", load: "in use, as measured", zones: "taken in NUMA zones" };
const LABEL = { room: "requested", load: "in use", zones: "by NUMA zone" };

/** All that can be shown of the cluster. @param {any} whole the unit of the whole @returns {Shade[]} */
export function shades(whole) {
  const load = new Set(), zones = new Set();
  for (const one of known.measures.values()) {
    for (const resource of Object.keys(one.load ?? {})) load.add(resource);
    for (const [, taken] of one.zones ?? []) for (const resource of Object.keys(taken)) zones.add(resource);
  }
  const there = Object.keys(whole.room);
  return [...there.map((one) => shade("room", one)), ...there.filter((one) => load.has(one)).map((one) => shade("load", one)), ...[...zones].sort().map((one) => shade("zones", one))];
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
  if (chosen.of === "load") {
    const used = known.measures.get(unit.name)?.load?.[chosen.resource], room = unit.room[chosen.resource];
    return used === undefined || !room ? undefined : [used, room[1]];
  }
  const zones = zonesOf(unit.name, chosen.resource);
  return zones.length ? zones.reduce((sum, [, one]) => [sum[0] + one[0], sum[1] + one[1]], /** @type {Pair} */ ([0, 0])) : undefined;
}

/** By the key of each unit what is used of what there is, where that is known. @param {Shade} chosen @returns {(key: string) => Pair | undefined} */
export function used(chosen) {
  if (chosen.of === "room") return (key) => known.units.get(key)?.room[chosen.resource];
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
