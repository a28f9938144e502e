"use strict";
// Draws openapi.json, which lies beside this page. Every text is put in as text, never as markup.

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child);
  return made;
}

// Descriptions are Markdown, of which only names in backticks occur.
function prose(text) {
  return (text || "").split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

function nameOf(reference) {
  return reference.slice(reference.lastIndexOf("/") + 1);
}

// A schema in a few words, with links to the types it names.
function shape(schema) {
  if (schema.$ref) return [element("a", { href: "#" + nameOf(schema.$ref) }, nameOf(schema.$ref))];
  const choices = schema.anyOf || schema.oneOf;
  if (choices) return choices.flatMap((choice, index) => (index ? [" | ", ...shape(choice)] : shape(choice)));
  if (schema.enum) return [schema.enum.map((value) => JSON.stringify(value)).join(" | ")];
  if (schema.type === "array") return ["[", ...shape(schema.items || {}), "]"];
  if (schema.type === "object" && schema.additionalProperties) return ["{text: ", ...shape(schema.additionalProperties), "}"];
  const limits = ["minimum", "maximum", "minLength", "maxLength", "pattern", "default"]
    .filter((key) => schema[key] !== undefined)
    .map((key) => `${key} ${schema[key]}`);
  return [`${schema.type || "anything"}${schema.format ? ` (${schema.format})` : ""}${limits.length ? `, ${limits.join(", ")}` : ""}`];
}

function table(head, rows) {
  const cells = (row, kind) => element("tr", {}, row.map((cell) => element(kind, {}, cell)));
  return rows.length ? element("table", {}, cells(head, "th"), rows.map((row) => cells(row, "td"))) : null;
}

function bodyOf(content) {
  return Object.entries(content || {}).flatMap(([media, { schema }]) => [element("code", {}, media), " ", ...shape(schema || {})]);
}

function operation(method, path, said) {
  const parameters = said.parameters.map((p) => [element("code", {}, p.name), `${p.in}${p.required ? ", required" : ""}`, prose(p.description), shape(p.schema)]);
  const answers = Object.entries(said.responses).map(([status, answer]) => [status, prose(answer.description), bodyOf(answer.content)]);
  const asked = said.requestBody ? said.requestBody.content["application/json"] : null;
  const drawn = element(
    "details", { id: said.operationId },
    element("summary", {}, element("span", { class: "method" }, method.toUpperCase()), element("code", {}, path),
      element("span", { class: "id" }, said.operationId), element("div", {}, said.summary)),
    table(["parameter", "where", "what", "type"], parameters),
    asked ? element("p", {}, "Body: ", ...shape(asked.schema)) : null,
    asked && asked.example ? element("pre", {}, JSON.stringify(asked.example, null, 2)) : null,
    table(["status", "meaning", "answer"], answers),
  );
  drawn.dataset.words = `${method} ${path} ${said.operationId} ${said.summary}`.toLowerCase();
  return drawn;
}

function type(name, schema) {
  const required = new Set(schema.required || []);
  const fields = Object.entries(schema.properties || {}).map(([field, inner]) => [
    element("code", {}, field), required.has(field) ? "always" : "optional", shape(inner), prose(inner.description)]);
  return element("details", { id: name }, element("summary", {}, element("code", {}, name), " ", prose(schema.description)),
    fields.length ? table(["field", "", "type", "what"], fields) : element("p", {}, ...shape(schema)));
}

function draw(api) {
  document.getElementById("about").prepend(`${api.info.summary} Version ${api.info.version}. `);
  const main = document.getElementById("operations");
  main.replaceChildren();
  for (const tag of api.tags) {
    main.append(element("h2", {}, tag.name), element("p", {}, tag.description));
    for (const [path, methods] of Object.entries(api.paths))
      for (const [method, said] of Object.entries(methods))
        if (said.tags.includes(tag.name)) main.append(operation(method, path, said));
  }
  const types = document.getElementById("types");
  for (const [name, schema] of Object.entries(api.components.schemas)) types.append(type(name, schema));
  openNamed();
}

function openNamed() {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (named instanceof HTMLDetailsElement) {
    named.open = true;
    named.scrollIntoView();
  }
}

document.getElementById("filter").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\s+/);
  for (const drawn of document.querySelectorAll("main details"))
    drawn.hidden = !words.every((word) => drawn.dataset.words.includes(word));
});
window.addEventListener("hashchange", openNamed);
fetch("openapi.json")
  .then((answer) => answer.json())
  .then(draw)
  .catch((why) => document.getElementById("operations").replaceChildren(`openapi.json can't be read: ${why}`));
