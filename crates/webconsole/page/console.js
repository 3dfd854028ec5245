// The console: sign-in, the stream of the view in sight, commands. What is shown comes from views.js.
import { VIEWS } from "/views.js";

const byId = (id) => document.getElementById(id);
const session = { csrf: "", entity: "" };
let stream = null, view = null, state = null, history = null, lastSign = 0;

/** An element: name, attributes (functions are listeners), children. Text is never read as HTML. */
export function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}
export function svg(name, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}
function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(4).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

async function api(method, path, body) {
  const headers = { "X-Sepiola-Csrf": session.csrf };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const answer = response.status === 204 ? {} : await response.json();
  if (response.status === 401) signedOut(answer.text);
  return { ok: response.ok, ...answer };
}

/** Sends a command as it is. */
export const command = (command) => api("POST", "/api/command", command);

/** Whether the user may change what a service has; the monitor decides again when a command comes. */
export const mayChange = (service) => state?.head?.changes?.includes(service) ?? false;

/** A button that runs a command after a question that shows it. */
export function action(label, service, why, text, request) {
  if (!mayChange(service)) return null;
  return h("button", { type: "button", "data-key": text, click: () => ask(why, text, request) }, label);
}

/** A button that asks the monitor something, and says its answer. */
export function question(label, request) {
  const answered = async () => { const answer = await command(request); say(answer.text || "The monitor said nothing.", !answer.ok); };
  return h("button", { type: "button", "data-key": label, click: answered }, label);
}

async function ask(why, text, request) {
  const dialog = byId("ask");
  byId("ask-why").textContent = why;
  byId("ask-command").textContent = text;
  dialog.returnValue = "no";
  dialog.showModal();
  await new Promise((done) => dialog.addEventListener("close", done, { once: true }));
  if (dialog.returnValue !== "yes") return;
  const answer = await command(request);
  const output = typeof answer.output === "string" ? answer.output : "";
  say(answer.ok ? `Done: ${text}. ${answer.text || output}` : `Refused: ${answer.text || "no reason was given"}`, !answer.ok);
}

/** Says something for a while, also to screen readers. */
export function say(text, isError) {
  const line = h("p", { class: isError ? "err" : "" }, text);
  byId("said").append(line);
  setTimeout(() => line.remove(), 12000);
}

function signedOut(text) {
  stream?.close();
  stream = null;
  session.csrf = "";
  byId("leave").hidden = true;
  byId("user").textContent = "";
  byId("views").replaceChildren();
  badge("Signed out", "");
  byId("title").textContent = "Sign in";
  byId("view").replaceChildren(h("div", { class: "card" },
    h("p", {}, text || "You are signed out."),
    h("p", {}, "On a machine with a key of the cluster, this prints a link that signs you in once, within a minute:"),
    h("pre", {}, "sepiola console --data DIRECTORY\nsepiola console --conf /etc/ceph/ceph.conf --name client.admin")));
}

function badge(text, kind) {
  const health = byId("health");
  if (health.textContent !== text) health.textContent = text;
  health.className = `badge ${kind}`;
}

function showHead(head) {
  const kinds = { HEALTH_OK: ["Healthy", "ok"], HEALTH_WARN: ["Warning", "warn"], HEALTH_ERR: ["Error", "err"] };
  badge(...(kinds[head.status] ?? [head.status, ""]));
  byId("health").title = head.warnings.join("; ");
  byId("user").textContent = head.user;
}

/** Shows a state; the focus and open details stay where they were. */
function render() {
  if (!state || !view) return;
  const root = byId("view");
  const focused = document.activeElement?.dataset?.key;
  const open = [...root.querySelectorAll("details[open]")].map((element) => element.dataset.key);
  root.replaceChildren(...[view.show(state.view, history)].flat(2).filter(Boolean));
  for (const element of root.querySelectorAll("details")) element.open = open.includes(element.dataset.key);
  if (focused) [...root.querySelectorAll("[data-key]")].find((element) => element.dataset.key === focused)?.focus();
}

function openView() {
  const name = location.hash.slice(1) || "overview";
  view = VIEWS.find((known) => known.name === name) ?? VIEWS[0];
  byId("title").textContent = view.title;
  document.title = `${view.title} · Sepiola`;
  byId("views").replaceChildren(...VIEWS.map((known) =>
    h("li", {}, h("a", { href: `#${known.name}`, "aria-current": known === view ? "page" : false }, known.title))));
  state = state && { head: state.head, view: null };
  byId("view").replaceChildren(h("p", {}, "Loading."));
  listen();
}

function listen() {
  stream?.close();
  stream = null;
  if (!session.csrf || document.hidden) return;
  const shown = view;
  stream = new EventSource(`/api/stream?view=${view.name}`);
  const alive = (text) => { lastSign = Date.now(); byId("connection").textContent = text ?? ""; };
  stream.addEventListener("state", (event) => {
    alive();
    if (shown !== view) return;
    state = JSON.parse(event.data);
    showHead(state.head);
    render();
  });
  stream.addEventListener("alive", () => alive());
  stream.addEventListener("waiting", () => alive("The monitors do not answer"));
  stream.addEventListener("refused", (event) => {
    stream?.close();
    const { text } = JSON.parse(event.data);
    byId("view").replaceChildren(h("div", { class: "card" }, h("p", {}, `Your capabilities do not show this: ${text}.`)));
  });
  stream.addEventListener("ended", () => signedOut("The session has ended."));
  stream.onerror = () => {
    byId("connection").textContent = "Connection lost, trying again";
    if (stream?.readyState === EventSource.CLOSED) setTimeout(resume, 3000);
  };
  lastSign = Date.now();
  loadHistory();
}

/** Whether the session still exists, and a new stream if it does. */
async function resume() {
  try {
    const answer = await api("GET", "/api/session");
    if (answer.ok) begin(answer);
  } catch {
    setTimeout(resume, 3000);
  }
}

async function loadHistory() {
  if (view?.name !== "overview" || !session.csrf || document.hidden) return;
  const answer = await command({ prefix: "console history" });
  if (answer.ok) { history = answer.output; render(); }
}

function begin(answer) {
  session.csrf = answer.csrf;
  session.entity = answer.entity;
  byId("leave").hidden = false;
  byId("user").textContent = answer.entity;
  openView();
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  const dark = name === "dark" || (!name && matchMedia("(prefers-color-scheme: dark)").matches);
  byId("theme").setAttribute("aria-pressed", String(dark));
}

/** Signs in by the secret in the address, which is removed first; false if there is none. */
async function signIn() {
  const secret = location.hash.slice(1);
  // A secret is 256 bits; the names of views are words.
  if (!/^[A-Za-z0-9_-]{43}$/.test(secret)) return false;
  window.history.replaceState(null, "", "/");
  const answer = await api("POST", "/api/session", { token: secret });
  if (answer.ok) begin(answer);
  return true;
}

async function start() {
  theme(localStorage.getItem("theme") ?? "");
  if (await signIn()) return;
  const answer = await api("GET", "/api/session");
  if (answer.ok) begin(answer);
}

byId("theme").addEventListener("click", () => {
  const dark = byId("theme").getAttribute("aria-pressed") === "true";
  localStorage.setItem("theme", dark ? "light" : "dark");
  theme(dark ? "light" : "dark");
});
byId("leave").addEventListener("click", async () => { await api("DELETE", "/api/session"); signedOut("You have signed out."); });
addEventListener("hashchange", async () => { if (await signIn() || !session.csrf) return; openView(); byId("main").focus(); });
// A page that is not in sight costs the monitor nothing.
document.addEventListener("visibilitychange", () => { if (view && session.csrf) listen(); });
setInterval(loadHistory, 10000);
setInterval(() => {
  if (stream && Date.now() - lastSign > 25000) { byId("connection").textContent = "Connection lost, trying again"; listen(); }
}, 5000);
start().catch(() => signedOut("The console does not answer."));
