// The views of the page: the part of the address after `#/` names the current one.
import { clock, duration, el, name } from "./dom.js";
import { enter, follow, known, link, listen, report, travel, turn } from "./feed.js";
import { cluster } from "./cluster.js";
import { groups } from "./groups.js";
import { moved } from "./moved.js";
import { network } from "./network.js";
import { pod } from "./pod.js";
import { queue } from "./queue.js";
import { time } from "./time.js";
import { whatif } from "./whatif.js";

/** A view: its element, and the function that updates it after a change. @typedef {{element: HTMLElement, update: () => void}} View */
/** @type {Record<string, {title: string, make: (rest: string) => View}>} */
const ALL = {
  moved: { title: "Moved", make: moved },
  cluster: { title: "Cluster", make: cluster },
  groups: { title: "Groups", make: groups },
  network: { title: "Network", make: network },
  queue: { title: "Queue", make: queue },
  pod: { title: "Pod", make: pod },
  whatif: { title: "What if", make: whatif },
  time: { title: "Time", make: time },
};
/** The views of a report: it has two results and no server. */
const IN_REPORT = ["moved", "cluster", "groups", "network", "queue"];
const VIEWS = Object.fromEntries(Object.entries(ALL).filter(([key]) => (report ? IN_REPORT.includes(key) : key !== "moved")));
const FIRST = report ? "moved" : "cluster";

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const nav = /** @type {HTMLElement} */ (document.getElementById("nav"));
const state = /** @type {HTMLElement} */ (document.getElementById("state"));
/** @type {View} */ let shown;

function open(isFirst = false) {
  if (!isFirst && !location.hash.startsWith("#/")) return; // the skip link
  if (asksForToken) return; // the form stays, and opens the view of the address
  const [view, ...rest] = location.hash.slice(2).split("/");
  const chosen = VIEWS[view] ? view : FIRST;
  nav.replaceChildren(...Object.entries(VIEWS).map(([key, { title }]) =>
    el("a", { href: `#/${key}`, "aria-current": key === chosen ? "page" : null }, title)));
  nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  title = VIEWS[chosen].title;
  let argument = "";
  try { argument = decodeURIComponent(rest.join("/")); } catch { /* a broken address names nothing */ }
  shown = VIEWS[chosen].make(argument);
  main.replaceChildren(shown.element);
  if (!isFirst) main.focus();
  shown.update();
}

let title = "";
const origin = /** @type {HTMLElement} */ (document.getElementById("origin"));
/** What the header states of the cluster and its scheduler. @type {[string, string][]} */
const ORIGIN = [["cluster", "Cluster"], ["context", "Context"], ["version", "Trellis"], ["profile", "Profile"], ["leader", "Leader"], ["daemon", "Daemon"]];

/** Name the cluster, so that two tabs of two clusters differ. */
function whose() {
  const about = known.about.get("about") ?? {};
  const cluster = String(about.context ?? about.cluster ?? "").replace(/^https?:\/\//, "");
  document.title = [title, cluster, "Trellis"].filter(Boolean).join(" · ");
  const text = JSON.stringify(ORIGIN.map(([key]) => about[key]));
  if (origin.dataset.of === text) return;
  origin.dataset.of = text;
  origin.replaceChildren(...ORIGIN.filter(([key]) => about[key]).map(([key, label]) => el("div", {}, el("dt", {}, label), el("dd", {}, name(about[key])))));
}

function tell() {
  whose();
  if (report) return sides();
  const about = known.about.get("about");
  const age = about ? Date.now() / 1000 - about.at : 0;
  state.className = link.problem && !link.needsToken ? "broken" : "";
  const text = (link.needsToken ? "Not signed in" : link.problem) || (!about ? "Reading the cluster…" : age > 3600 ? `As of ${clock(about.at).slice(0, -4)}` : age > 60 ? `Seen ${duration(age)} ago` : "Live");
  if (link.at !== null) {
    const moment = `As it was at ${clock(link.at)}`;
    if (!state.textContent?.startsWith(moment)) state.replaceChildren(moment, " ", el("button", { onclick: () => travel(null) }, "Back to now"));
  } else if (state.textContent !== text) state.textContent = text;
  if (link.needsToken !== asksForToken) askForToken();
}

function sides() {
  const names = ["Before", "After"];
  state.replaceChildren(el("span", { class: "sides", role: "group", "aria-label": "Shown" }, ...names.map((label, side) =>
    el("button", { "aria-pressed": String(side === link.side), title: report.sides[side].title, onclick: () => turn(side) }, label))));
}

let asksForToken = false;
let hasEntered = false;

/** Ask for a bearer token; the API server authenticates it. */
function askForToken() {
  nav.hidden = asksForToken = link.needsToken;
  if (!asksForToken) return open(true);
  const token = /** @type {HTMLInputElement} */ (el("input", { id: "token", type: "password", autocomplete: "off", required: true }));
  const namespace = /** @type {HTMLInputElement} */ (el("input", { id: "namespace", autocomplete: "off" }));
  const form = el("form", { class: "card token", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); hasEntered = true; enter(token.value, namespace.value); } },
    el("h1", {}, "Sign in"),
    el("p", {}, "The page shows what your account may list in the cluster. Paste a token of a ServiceAccount that may open it (value ", el("code", {}, "page.readers"), " of the chart):"),
    el("p", {}, el("code", {}, "kubectl create token SERVICEACCOUNT -n NAMESPACE")),
    el("p", { class: "sub" }, "The token remains in this tab."),
    hasEntered && el("p", { class: "error", role: "alert" }, link.problem),
    el("p", {}, el("label", { for: "token" }, "Token"), token),
    el("p", {}, el("label", { for: "namespace" }, "Namespace, if you may not list all"), namespace),
    el("button", { class: "main" }, "Open"));
  main.replaceChildren(form);
  token.focus();
}

addEventListener("hashchange", () => open());
follow(() => { if (!asksForToken) shown.update(); tell(); });
setInterval(tell, 5000);
open(true);
tell();
listen();
