// Blocks whose areas are numbers of nodes. Similar ones form a grid in their given order; others a squarified treemap
// (Bruls, Huizing, van Wijk 2000), whose rows are filled while their blocks get squarer.

/** @typedef {{x: number, y: number, w: number, h: number}} Box */

/**
 * @param {{key: string, size: number}[]} items with sizes above zero @param {Box} box
 * @returns {(Box & {key: string})[]}
 */
export function layout(items, box) {
  const total = items.reduce((sum, one) => sum + one.size, 0);
  if (!(total > 0) || box.w <= 0 || box.h <= 0) return [];
  const sizes = items.map((one) => one.size);
  if (Math.max(...sizes) <= 2 * Math.min(...sizes)) return grid(items, box);
  const scale = (box.w * box.h) / total;
  const rest = items.map((one) => ({ key: one.key, area: one.size * scale })).sort((a, b) => b.area - a.area || (a.key < b.key ? -1 : 1));
  /** @type {(Box & {key: string})[]} */ const found = [];
  let { x, y, w, h } = box;
  for (let begin = 0; begin < rest.length;) {
    const side = Math.min(w, h);
    let end = begin, sum = 0, worst = Infinity;
    while (end < rest.length) {
      const next = sum + rest[end].area;
      const ratio = Math.max((side * side * rest[begin].area) / (next * next), (next * next) / (side * side * rest[end].area));
      if (ratio > worst) break;
      [sum, worst] = [next, ratio];
      end++;
    }
    const thick = side > 0 ? sum / side : 0;
    let along = w < h ? x : y;
    for (; begin < end; begin++) {
      const long = thick > 0 ? rest[begin].area / thick : 0;
      found.push(w < h ? { key: rest[begin].key, x: along, y, w: long, h: thick } : { key: rest[begin].key, x, y: along, w: thick, h: long });
      along += long;
    }
    if (w < h) { y += thick; h -= thick; } else { x += thick; w -= thick; }
  }
  return found;
}

/**
 * Blocks of one size row by row, with the number of columns whose blocks are closest to squares.
 * @param {{key: string}[]} items @param {Box} box
 * @returns {(Box & {key: string})[]}
 */
function grid(items, box) {
  let columns = 1, best = Infinity;
  for (let count = 1; count <= items.length; count++) {
    const rows = Math.ceil(items.length / count);
    const ratio = box.w / count / (box.h / rows);
    // A full grid is read at once: empty places at the end count twice like a shape that is less square.
    const cost = Math.max(ratio, 1 / ratio) * ((count * rows) / items.length) ** 2;
    if (cost < best) [columns, best] = [count, cost];
  }
  const [w, h] = [box.w / columns, box.h / Math.ceil(items.length / columns)];
  return items.map(({ key }, at) => ({ key, x: box.x + (at % columns) * w, y: box.y + Math.floor(at / columns) * h, w, h }));
}
