/** The pages of the server: log in, set up, and what runs. Every text is set as text, never as markup. */

const REFRESH_MS = 5000;
const ROWS_MAX = 50;
/** Of so many jobs at once it is asked how far they are. */
const ASKED_MAX = 10;
const OVER = ["completed", "failed", "cancelled"];
const UNITS = /** @type {[string, number][]} */ ([["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]);

/** @typedef {{id: string, pipeline: string, subject: string | null, status: string, control: string, error: string | null, created_at: string}} Job */
/** @typedef {{id: string, name: string, status: string, disabled: boolean, quarantined_at: string | null, quarantine_reason: string | null, load: number, slots: number, last_heartbeat_at: string | null}} Worker */
/** @typedef {{name: string, role: string | null, csrf_token: string | null}} Me */
/** @typedef {string | Node | null} Shown */

/** What the server did not want to do. */
class Refused extends Error {
  /** @param {number} status @param {string} words */
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

/** The server's clock less ours, from its last answer. */
let ahead = 0;
let token = "";

/** @template {Element} T @param {string} selector @param {new () => T} kind @returns {T} */
function part(selector, kind) {
  const found = document.querySelector(selector);
  if (found instanceof kind) return found;
  throw new Error(`the page has no ${selector}`);
}

/** @param {string} path @param {unknown} [body] sent if there is one @returns {Promise<any>} */
async function ask(path, body) {
  const headers = { "Content-Type": "application/json", "X-CSRF-Token": token };
  const sent = { method: "POST", headers, body: JSON.stringify(body) };
  const answer = await fetch(path, body === undefined ? {} : sent);
  const date = Date.parse(answer.headers.get("date") ?? "");
  if (date) ahead = date - Date.now();
  const told = answer.status === 204 ? null : await answer.json();
  if (answer.ok) return told;
  throw new Refused(answer.status, [told.detail, told.advice].filter(Boolean).join(". "));
}

/** @param {string} words */
function tell(words) {
  const line = part(".message", HTMLElement);
  line.textContent = words;
  line.hidden = !words;
}

/** @param {unknown} error */
function complain(error) {
  tell(error instanceof Refused ? error.message : "The server cannot be reached.");
}

/** @param {string | null} moment */
function age(moment) {
  if (!moment) return "never";
  const seconds = Math.max((Date.now() + ahead - Date.parse(moment)) / 1000, 0);
  const [unit, size] = UNITS.find(([, one]) => seconds >= one) ?? ["s", 1];
  return `${Math.floor(seconds / size)} ${unit} ago`;
}

/** @param {string} selector @param {Shown[][]} rows @param {string} nothing what is shown if there is none */
function fill(selector, rows, nothing) {
  const body = part(`${selector} tbody`, HTMLTableSectionElement);
  const shown = rows.length ? rows : [[nothing]];
  body.replaceChildren(...shown.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((cell) => {
      const place = document.createElement("td");
      place.append(cell ?? "");
      if (!rows.length) place.colSpan = 6;
      return place;
    }));
    return row;
  }));
}

/** @param {number} percent */
function bar(percent) {
  const shown = document.createElement("progress");
  shown.max = 100;
  shown.value = percent;
  const both = document.createElement("span");
  both.append(shown, ` ${Math.floor(percent)} %`);
  return both;
}

/** @param {Job[]} jobs @returns {Promise<Map<string, number>>} how far each is that runs */
async function percents(jobs) {
  const live = jobs.filter((job) => !OVER.includes(job.status)).slice(0, ASKED_MAX);
  /** @type {Map<string, number>} */
  const found = new Map();
  await Promise.all(live.map(async (job) => {
    const told = await ask(`/api/jobs/${encodeURIComponent(job.id)}/progress`).catch(() => null); // it may be gone
    if (told) found.set(job.id, told.percent);
  }));
  return found;
}

/** @param {Worker} worker @returns {string} what stands out most of it */
function standing(worker) {
  if (worker.disabled) return "disabled";
  return worker.quarantined_at ? `quarantined: ${worker.quarantine_reason}` : worker.status;
}

async function refresh() {
  const [jobs, workers] = await Promise.all([ask(`/api/jobs?limit=${ROWS_MAX}`), ask(`/api/workers?limit=${ROWS_MAX}`)]);
  const far = await percents(jobs.items);
  fill(".jobs", jobs.items.map((/** @type {Job} */ job) => {
    const percent = job.status === "completed" ? 100 : far.get(job.id);
    const status = job.control === "PAUSED" && !OVER.includes(job.status) ? "paused" : job.status;
    return [job.pipeline, job.subject ?? job.id, status, percent === undefined ? "" : bar(percent), age(job.created_at), job.error];
  }), "No job yet.");
  fill(".workers", workers.items.map((/** @type {Worker} */ worker) => [
    !worker.name || worker.name === worker.id ? worker.id : `${worker.id} (${worker.name})`,
    standing(worker),
    `${worker.load}/${worker.slots}`,
    age(worker.last_heartbeat_at),
  ]), "No worker yet.");
  tell("");
}

async function home() {
  const look = async () => {
    try {
      if (!document.hidden) await refresh();
    } catch (error) {
      if (error instanceof Refused && error.status === 401) return location.assign("/login");
      complain(error);
    }
    setTimeout(look, REFRESH_MS);
  };
  const me = /** @type {Me} */ (await ask("/api/me"));
  token = me.csrf_token ?? "";
  part(".who span", HTMLElement).textContent = me.role ? `${me.name}, ${me.role}` : me.name;
  part(".who", HTMLElement).hidden = false;
  part(".who button", HTMLButtonElement).addEventListener("click", () => {
    ask("/api/logout", {}).then(() => location.assign("/login"), complain);
  });
  await look();
}

/** @param {(field: (name: string) => string) => Promise<void>} send */
function whenSent(send) {
  const form = part("form", HTMLFormElement);
  const button = part("form button", HTMLButtonElement);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    tell("");
    const fields = new FormData(form);
    try {
      await send((name) => String(fields.get(name)));
    } catch (error) {
      complain(error);
    }
    button.disabled = false;
  });
}

function login() {
  const next = new URLSearchParams(location.search).get("next") ?? "/";
  whenSent(async (field) => {
    const me = await ask("/api/login", { name: field("name"), password: field("password"), next });
    location.assign(me.next); // the server answers with a place of its own, whatever was asked for
  });
}

function setup() {
  const link = location.hash.slice(1);
  history.replaceState(null, "", location.pathname); // what lets somebody in stays out of the history
  if (!link) tell("Open the link that the server printed when it started, with all that stands behind the #.");
  whenSent(async (field) => {
    if (field("password") !== field("again")) throw new Refused(422, "The passwords are not the same.");
    await ask("/api/setup", { token: link, name: field("name"), password: field("password") });
    location.assign("/");
  });
}

const pages = { home, login, setup };
Promise.resolve(pages[/** @type {keyof typeof pages} */ (document.body.dataset.page)]()).catch(complain);

export {};
