// Blocks whose areas are numbers of nodes, in their given order: those of similar sizes form one grid, and
// smaller ones a grid of their own beside or below it.

/** @typedef {{x: number, y: number, w: number, h: number}} Box */
/** The least width and height of a grid, so that the names of its few blocks are visible. */
const LEAST = { w: 58, h: 46 };

/**
 * @param {{key: string, size: number}[]} items with sizes above zero @param {Box} box
 * @returns {(Box & {key: string})[]}
 */
export function layout(items, box) {
  if (!items.length || box.w <= 0 || box.h <= 0) return [];
  /** @type {{items: {key: string}[], largest: number, size: number}[]} */ const grids = [];
  for (const one of [...items].sort((a, b) => b.size - a.size)) {
    const last = grids[grids.length - 1];
    if (last && last.largest <= 2 * one.size) { last.items.push(one); last.size += one.size; }
    else grids.push({ items: [one], largest: one.size, size: one.size });
  }
  const place = new Map(items.map(({ key }, at) => [key, at]));
  let rest = box, size = items.reduce((sum, one) => sum + one.size, 0);
  return grids.flatMap((one, at) => {
    const side = rest.h >= rest.w ? "h" : "w", least = LEAST[side] * (grids.length - 1 - at);
    const share = rest[side] * (one.size / size);
    const own = rest[side] > 6 * least ? Math.min(share, rest[side] - least) : share;
    const part = { ...rest, [side]: own };
    rest = side === "h" ? { ...rest, y: rest.y + own, h: rest.h - own } : { ...rest, x: rest.x + own, w: rest.w - own };
    size -= one.size;
    return grid(one.items.sort((a, b) => (place.get(a.key) ?? 0) - (place.get(b.key) ?? 0)), part);
  });
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
    // A full grid is read at once: empty places at the end count more than a shape that is less square.
    const cost = Math.max(ratio, 1 / ratio) * ((count * rows) / items.length) ** 4;
    if (cost < best) [columns, best] = [count, cost];
  }
  const [w, h] = [box.w / columns, box.h / Math.ceil(items.length / columns)];
  return items.map(({ key }, at) => ({ key, x: box.x + (at % columns) * w, y: box.y + Math.floor(at / columns) * h, w, h }));
}
