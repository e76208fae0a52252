// What the page knows: the document of the server, kept up to date by patches, and questions to it.

const key = takeKey();
const listeners = new Set();
let scheduled = false;

/** @type {Record<string, Map<string, any>>} */
export const known = { about: new Map(), units: new Map(), pods: new Map(), ways: new Map(), applications: new Map() };
export const link = { live: false, problem: "", version: 0 };

/** The key comes in the fragment, which no request carries, and does not stay in the address. */
function takeKey() {
  const given = /^#key=([\w-]+)$/.exec(location.hash);
  if (given) {
    sessionStorage.setItem("key", given[1]);
    history.replaceState(null, "", "#/cluster");
  }
  return sessionStorage.getItem("key") ?? "";
}

/** Call `listener` after changes, at most once a frame; returns what ends it. @param {() => void} listener */
export function follow(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function changed() {
  link.version++;
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    for (const listener of [...listeners]) listener();
  });
}

/** @param {string} path @param {any} [body] @returns {Promise<any>} */
export async function ask(path, body) {
  const response = await fetch(path, {
    headers: { Authorization: `Bearer ${key}` },
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.message);
  return answer;
}

export async function listen() {
  for (let wait = 500; ; wait = Math.min(wait * 2, 15000)) {
    try {
      await read();
      link.problem = "The server has ended.";
    } catch (error) {
      link.problem = error instanceof Error && error.message !== "Failed to fetch" && error.message !== "network error" ? error.message : "The server does not answer.";
    }
    link.live = false;
    changed();
    await new Promise((done) => setTimeout(done, wait));
  }
}

async function read() {
  const response = await fetch("api/events", { headers: { Authorization: `Bearer ${key}` } });
  if (!response.ok || !response.body) throw new Error((await response.json()).message);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  /** @type {string[]} */ let parts = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    // An event may come in many pieces, and end within one: only the seam is searched again.
    parts.push(value);
    if (!value.includes("\n\n") && !(parts.length > 1 && value[0] === "\n")) continue;
    const events = parts.join("").split("\n\n");
    parts = [events.pop() ?? ""];
    for (const event of events) take(event);
  }
}

/** @param {string} event */
function take(event) {
  if (!event.startsWith("event: ")) return;
  const line = event.indexOf("\n");
  const document = JSON.parse(event.slice(line + 7));
  if (event.slice(7, line) === "view") {
    for (const section of Object.keys(known)) known[section] = new Map(Object.entries(document[section] ?? {}));
  } else {
    for (const [section, change] of Object.entries(document)) {
      known[section] ??= new Map();
      for (const gone of change.drop) known[section].delete(gone);
      for (const [name, record] of Object.entries(change.set)) known[section].set(name, record);
    }
  }
  link.live = true;
  link.problem = "";
  changed();
}
