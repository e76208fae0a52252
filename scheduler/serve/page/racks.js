// The unit above each node (its rack, where the tree has racks), and pods counted by it.
import { natural } from "./dom.js";
import { known } from "./feed.js";

/** @type {Map<string, string>} */ let rackOf = new Map();
let seen = {};

/** The name of the unit above a node, or the node's own name. @param {string} node */
export function rack(node) {
  if (seen !== known.units) {
    seen = known.units;
    rackOf = new Map();
    for (const unit of known.units.values()) if (unit.level === "node" && unit.parent !== "/") rackOf.set(unit.name, known.units.get(unit.parent)?.name ?? "");
  }
  return rackOf.get(node) || node;
}

/** Names of nodes as racks with their numbers: `rack-3 × 8, rack-4 × 2`. @param {string[]} nodes @param {number} few the number of racks to name */
export function inRacks(nodes, few = 4) {
  if (nodes.length === 1) return nodes[0];
  /** @type {Map<string, number>} */ const counts = new Map();
  for (const node of nodes) counts.set(rack(node), (counts.get(rack(node)) ?? 0) + 1);
  const listed = [...counts].sort(([a], [b]) => natural(a, b));
  return `${listed.slice(0, few).map(([name, count]) => `${name} × ${count}`).join(", ")}${listed.length > few ? ` and ${listed.length - few} more` : ""}`;
}
