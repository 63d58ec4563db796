/** The API as its own document tells it. Every text is set as text, never as markup. */

const DEPTH_MAX = 6;
const METHODS = ["get", "post", "put", "patch", "delete"];
const BOUNDS = /** @type {[string, string][]} */ ([
  ["minimum", "≥"], ["exclusiveMinimum", ">"], ["maximum", "≤"], ["minLength", "length ≥"], ["maxLength", "length ≤"],
  ["minItems", "items ≥"], ["maxItems", "items ≤"], ["pattern", "like"], ["format", "as"],
]);

/** @typedef {Record<string, any>} Json */
/** @typedef {string | Node} Shown */

/** @type {Json} */
let schemas = {};

/** @template {Element} T @param {string} selector @param {new () => T} kind @returns {T} */
function part(selector, kind) {
  const found = document.querySelector(selector);
  if (found instanceof kind) return found;
  throw new Error(`the page has no ${selector}`);
}

/** @param {string} name @param {string} kind class of the element, or empty @param {...Shown} inside */
function made(name, kind, ...inside) {
  const element = document.createElement(name);
  if (kind) element.className = kind;
  element.append(...inside);
  return element;
}

/** @param {Json} schema @returns {Json} what a reference leads to */
function followed(schema) {
  const name = String(schema.$ref ?? "").split("/").at(-1);
  return name ? { ...schemas[name], ...schema } : schema;
}

/** @param {Json} schema */
function bounds(schema) {
  const told = BOUNDS.filter(([name]) => schema[name] !== undefined).map(([name, sign]) => `${sign} ${schema[name]}`);
  const usual = schema.default === undefined || schema.default === null ? [] : [`usually ${JSON.stringify(schema.default)}`];
  return [...told, ...usual].join(", ");
}

/** @param {Json} given @param {number} depth @returns {string} what a value looks like */
function shape(given, depth = 0) {
  const schema = followed(given);
  const choices = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (choices) return choices.map((/** @type {Json} */ one) => shape(one, depth)).join(" | ");
  if (schema.enum) return schema.enum.map((/** @type {unknown} */ one) => JSON.stringify(one)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (depth >= DEPTH_MAX) return "…";
  if (schema.type === "array") return `[${schema.prefixItems ? "…" : shape(schema.items ?? {}, depth + 1)}, …]`;
  if (!schema.properties) return schema.type ?? "any";
  const inner = "  ".repeat(depth + 1);
  const lines = Object.entries(schema.properties).map(([name, field]) => {
    const is_free = !(schema.required ?? []).includes(name);
    const notes = [is_free ? "optional" : "", bounds(field)].filter(Boolean).join(", ");
    return `${inner}"${name}": ${shape(field, depth + 1)}${notes ? `   // ${notes}` : ""}`;
  });
  return `{\n${lines.join("\n")}\n${"  ".repeat(depth)}}`;
}

/** @param {string[]} heads @param {Shown[][]} rows */
function table(heads, rows) {
  const head = made("tr", "", ...heads.map((word) => made("th", "", word)));
  const body = rows.map((cells) => made("tr", "", ...cells.map((cell) => made("td", "", cell))));
  return made("section", "", made("table", "", made("thead", "", head), made("tbody", "", ...body)));
}

/** @param {Json} call @returns {string} who may make it */
function needed(call) {
  const scopes = (call.security ?? []).flatMap((/** @type {Json} */ one) => Object.values(one).flat());
  if (!call.security) return "Needs no key.";
  return scopes.length ? `Needs the scope ${[...new Set(scopes)].join(", ")}.` : "Needs a key or a session.";
}

/** @param {Json} call @returns {Node[]} */
function parameters(call) {
  const rows = (call.parameters ?? []).map((/** @type {Json} */ one) => [
    made("code", "", one.name),
    one.in + (one.required ? "" : ", optional"),
    [shape(one.schema), bounds(followed(one.schema))].filter(Boolean).join(", "),
    one.description ?? "",
  ]);
  return rows.length ? [made("h3", "", "Parameters"), table(["Name", "In", "Value", "Meaning"], rows)] : [];
}

/** @param {string} title @param {Json | undefined} content @returns {Node[]} */
function bodies(title, content) {
  return Object.entries(content ?? {}).flatMap(([kind, body]) => [
    made("h3", "", `${title}: ${kind}`), made("pre", "", shape(body.schema ?? {})),
  ]);
}

/** @param {Json} call @returns {Node[]} */
function answers(call) {
  const rows = Object.entries(call.responses).map(([status, answer]) => [status, answer.description]);
  const good = Object.entries(call.responses).filter(([status]) => status < "300");
  return [
    ...good.flatMap(([status, answer]) => bodies(`Answer ${status}`, answer.content)),
    made("h3", "", "Statuses"),
    table(["Status", "Meaning"], rows),
  ];
}

/** @param {string} method @param {string} path @param {Json} call */
function shown(method, path, call) {
  const name = made("code", "", made("span", "method", method.toUpperCase()), path);
  const box = /** @type {HTMLDetailsElement} */ (made("details", "", made("summary", "", name, " ", made("span", "does", call.summary ?? ""))));
  box.id = call.operationId;
  box.dataset.words = `${method} ${path} ${call.summary} ${call.description}`.toLowerCase();
  box.addEventListener("toggle", () => {
    if (box.childElementCount > 1) return; // it is put together when it is first opened
    box.append(
      made("p", "", `${call.description ?? ""} ${needed(call)}`),
      ...parameters(call), ...bodies("Body", call.requestBody?.content), ...answers(call),
    );
  });
  return box;
}

/** @param {Json} told the document */
function show(told) {
  schemas = told.components?.schemas ?? {};
  part(".about", HTMLElement).textContent = `${told.info.description} Version ${told.info.version}.`;
  /** @type {Map<string, Node[]>} */
  const groups = new Map();
  for (const [path, calls] of Object.entries(told.paths)) {
    for (const method of METHODS.filter((one) => calls[one])) {
      const group = calls[method].tags?.[0] ?? "other";
      groups.set(group, [...(groups.get(group) ?? []), shown(method, path, calls[method])]);
    }
  }
  part(".calls", HTMLElement).replaceChildren(
    ...[...groups].map(([group, calls]) => made("section", "", made("h2", "", group), ...calls)),
  );
}

/** @param {string} words */
function find(words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  for (const group of document.querySelectorAll(".calls > section")) {
    const calls = /** @type {HTMLElement[]} */ ([...group.querySelectorAll("details")]);
    for (const call of calls) call.hidden = !wanted.every((word) => call.dataset.words?.includes(word));
    /** @type {HTMLElement} */ (group).hidden = calls.every((call) => call.hidden);
  }
}

async function main() {
  const answer = await fetch("/openapi.json");
  if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
  show(await answer.json());
  const search = part("input", HTMLInputElement);
  search.addEventListener("input", () => find(search.value));
  const linked = location.hash && document.getElementById(location.hash.slice(1));
  if (linked instanceof HTMLDetailsElement) {
    linked.open = true;
    linked.scrollIntoView();
  }
}

main().catch((error) => {
  const line = part(".message", HTMLElement);
  line.textContent = `The document cannot be shown: ${error.message}. It is at /openapi.json.`;
  line.hidden = false;
});

export {};
