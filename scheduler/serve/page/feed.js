// The data of the page: the server's document, updated by patches, and questions to the server.

/** The data of a report (`simulate --against`), whose two results replace a server. @type {any} */
export const report = JSON.parse(document.getElementById("report")?.textContent ?? "null");
let key = takeKey();
const listeners = new Set();
let scheduled = false;

/** The displayed state: the present, or the time `link.at`. @type {Record<string, Map<string, any>>} */
export const known = { about: new Map(), units: new Map(), pods: new Map(), measures: new Map(), ways: new Map(), applications: new Map() };
/** The received document, independent of the displayed time. @type {Record<string, Map<string, any>>} */
const present = { ...known };
/** `side` is the displayed result of a report. @type {{live: boolean, problem: string, version: number, at: number | null, side: number, needsToken: boolean}} */
export const link = { live: false, problem: "", version: 0, at: null, side: 1, needsToken: false };
let woken = () => {};

/** Read the key from the fragment, which requests do not contain, and remove it from the address. */
function takeKey() {
  const given = /^#key=([\w-]+)$/.exec(location.hash);
  if (report) return "";
  if (given) {
    sessionStorage.setItem("key", given[1]);
    history.replaceState(null, "", "#/cluster");
  }
  return sessionStorage.getItem("key") ?? "";
}

/** Call `listener` after changes, at most once a frame; return a function that stops it. @param {() => void} listener */
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

/** Show the page with the rights of this token's user, limited to a namespace if they may not list all. @param {string} token @param {string} namespace */
export function enter(token, namespace) {
  key = token.trim();
  sessionStorage.setItem("key", key);
  sessionStorage.setItem("namespace", namespace.trim());
  link.needsToken = false;
  woken();
}

/** @param {string} path */
function address(path) {
  const namespace = sessionStorage.getItem("namespace") ?? "";
  return namespace ? `${path}${path.includes("?") ? "&" : "?"}namespace=${encodeURIComponent(namespace)}` : path;
}

/** @returns {Record<string, string>} */
const headers = () => (key ? { Authorization: `Bearer ${key}` } : {});

/** Send a question about the displayed time. @param {string} path @param {any} [body] @returns {Promise<any>} */
export async function ask(path, body) {
  if (report) return report.sides[link.side].plan;
  const moment = link.at === null || /[?&]at=/.test(path) ? path : `${path}${path.includes("?") ? "&" : "?"}at=${link.at}`;
  const response = await fetch(address(moment), {
    headers: headers(),
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.message);
  return answer;
}

/** Show the state at a time, or the present (null). @param {number | null} at */
export async function travel(at) {
  const document = at === null ? null : await ask(`api/snapshot?at=${at}`);
  link.at = at;
  for (const section of Object.keys(known)) known[section] = document ? new Map(Object.entries(document[section] ?? {})) : present[section];
  changed();
}

/** Show one side of a report. @param {number} side */
export function turn(side) {
  link.side = side;
  for (const section of Object.keys(known)) known[section] = new Map(Object.entries(report.sides[side].sections[section] ?? {}));
  link.live = true;
  changed();
}

export async function listen() {
  if (report) return turn(1);
  for (let wait = 500; ; wait = Math.min(wait * 2, 15000)) {
    try {
      await read();
      link.problem = "The server has ended.";
    } catch (error) {
      link.problem = error instanceof Error && error.message !== "Failed to fetch" && error.message !== "network error" ? error.message : "The server does not answer.";
    }
    link.live = false;
    changed();
    await new Promise((done) => { woken = () => { wait = 500; done(undefined); }; if (!link.needsToken) setTimeout(done, wait); });
  }
}

async function read() {
  const response = await fetch(address("api/events"), { headers: headers() });
  // For the daemon's page; the page of `trellis ui` needs the printed address instead of a token.
  link.needsToken = (response.status === 401 || response.status === 403) && location.pathname.endsWith("/ui/");
  if (!response.ok || !response.body) throw new Error((await response.json()).message);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  /** @type {string[]} */ let parts = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    // An event may arrive in several chunks: search only the boundary again.
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
    for (const section of Object.keys(known)) {
      present[section] = new Map(Object.entries(document[section] ?? {}));
      if (link.at === null) known[section] = present[section];
    }
  } else {
    for (const [section, change] of Object.entries(document)) {
      const records = present[section];
      if (!records) continue;
      for (const gone of change.drop) records.delete(gone);
      for (const [name, record] of Object.entries(change.set)) records.set(name, record);
    }
  }
  link.live = true;
  link.problem = "";
  changed();
}
