// What would happen now, as the server works it out; asked again when the cluster has changed, not too often.
import { ask, known, link } from "./feed.js";

const AGAIN_MS = 5000;

const moment = () => `${link.at} ${link.side}`;

/** @param {() => void} done */
export function planning(done) {
  const plan = { answer: /** @type {any} */ (null), problem: "", refresh };
  let version = -1, isAsking = false, last = 0, at = moment();
  async function refresh() {
    const isElsewhen = at !== moment();
    if (!link.live || isAsking || (!isElsewhen && (version === link.version || performance.now() - last < (last ? AGAIN_MS : 0)))) return;
    if (!known.units.size) return;
    isAsking = true;
    [version, at] = [link.version, moment()];
    try {
      plan.answer = await ask("api/plan");
      plan.problem = "";
    } catch (error) {
      plan.problem = error instanceof Error ? error.message : String(error);
    }
    isAsking = false;
    last = performance.now();
    done();
  }
  return plan;
}
