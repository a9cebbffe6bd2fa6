"use strict";
/* The page that `dtbench report` writes. All of its data are in the script element "data"; nothing
 * is fetched. Texts are somebody else's: they become text nodes, never HTML. */

const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6D31", "#7A7A7A", "#B8A900", "#4B3F9E"];
const MARKS = ["circle", "rect", "triangle", "rectRot", "star", "crossRot", "cross", "rectRounded"];
const PARTS = ["forward_s", "backward_s", "optimizer_s", "exposed_comm_s", "bubble_s", "host_s"];
const CATEGORIES = ["parameters", "gradients", "optimizer", "activations", "communication", "workspace"];
const ROWS_AT_ONCE = 200, BARS_AT_MOST = 60, SERIES_AT_MOST = 24;
const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/* ---- the data ---- */

async function readData() {
  const text = $("data").textContent.trim();
  if ($("data").type === "application/json") return JSON.parse(text);
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/* Columns of the table: {name, title, unit, size, metric, at(row)}; a value is a number, a text, a
 * truth or null. */
function makeColumns(data) {
  const keys = data.keys.map((key) => ({ ...key, metric: false, unit: "", size: 1, at: (row) => key.values[key.rows[row]] }));
  const metrics = data.metrics.map((metric) => {
    let largest = 0;
    for (const value of metric.rows) largest = Math.max(largest, Math.abs(value || 0));
    const [unit, size] = unitOf(metric, largest);
    return { ...metric, metric: true, unit, size, at: (row) => metric.rows[row] };
  });
  return [...keys, ...metrics];
}

function unitOf(metric, largest) {
  const fits = (units) => units.find(([, size]) => largest >= size) || units[units.length - 1];
  if (metric.kind === "fraction") return ["%", 0.01];
  if (metric.kind === "seconds") return fits([["s", 1], ["ms", 1e-3], ["us", 1e-6]]);
  if (metric.kind === "bytes") return fits([["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]);
  return [metric.unit, 1];
}

function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "-";
  const size = Math.abs(value);
  if (size >= 99.95) return Math.round(value).toLocaleString("en-US");
  if (size > 0 && size < 1e-3) return value.toExponential(2);
  return String(Number(value.toPrecision(3)));
}

const isNone = (value) => value === null || value === undefined;
const shown = (column, row) => {
  const value = column.at(row);
  if (isNone(value)) return "-";
  if (column.metric) return short(value / column.size);
  if (typeof value === "string" && value.endsWith(".json")) return value.replace(/^(clusters|profiles)\//, "").slice(0, -5);
  return String(value);
};

/* ---- which rows, in which order ---- */

const state = { filter: "", unknown: [], sort: null, descending: false, best: "", limit: ROWS_AT_ONCE };
let data, columns, rate, rows;
const named = (name) => columns.find((c) => c.name === name) || columns.find((c) => c.name === name + ".median" || c.name === name + ".total");
/* What people call a column, and in which unit it is shown: "step, ms". */
const wordsOf = (c) => [c.title, c.metric ? c.unit : ""].filter(Boolean).join(", ") || c.name;

function condition(word) {
  const match = /^([\w.]+)(!=|<=|>=|=|<|>)(.*)$/.exec(word);
  const column = match && (named(match[1]) || columns.find((c) => c.title === match[1]));
  if (match && !column) state.unknown.push(match[1]);
  if (!column) {
    const wanted = word.toLowerCase();
    return (row) => columns.some((c) => !c.metric && String(c.at(row) ?? "").toLowerCase().includes(wanted));
  }
  const [, , sign, text] = match, list = text.split(","), number = Number(text);
  const isOne = (row) => list.some((item) => String(column.at(row) ?? "") === item || shown(column, row) === item || (item !== "" && column.at(row) === Number(item)));
  return {
    "=": isOne, "!=": (row) => !isOne(row), "<": (row) => !isNone(column.at(row)) && column.at(row) < number, "<=": (row) => !isNone(column.at(row)) && column.at(row) <= number,
    ">": (row) => column.at(row) > number, ">=": (row) => !isNone(column.at(row)) && column.at(row) >= number,
  }[sign];
}

function chooseRows() {
  state.unknown = [];
  const conditions = state.filter.split(/\s+/).filter(Boolean).map(condition);
  let found = [];
  for (let row = 0; row < data.rows; row++) if (conditions.every((holds) => holds(row))) found.push(row);
  const best = state.best && named(state.best), status = named("status");
  if (best && rate) {
    const fastest = new Map();
    for (const row of found) {
      const group = best.at(row), so_far = fastest.get(group);
      if (status.at(row) === "ok" && !isNone(rate.at(row)) && (so_far === undefined || rate.at(row) > rate.at(so_far))) fastest.set(group, row);
    }
    found = [...fastest.values()];
  }
  if (state.sort) {
    const sign = state.descending ? -1 : 1, at = state.sort.at;
    found.sort((a, b) => {
      const left = at(a), right = at(b);
      if (isNone(left) || isNone(right)) return isNone(left) - isNone(right);
      return sign * (typeof left === "number" && typeof right === "number" ? left - right : String(left) < String(right) ? -1 : String(left) > String(right) ? 1 : 0) || a - b;
    });
  }
  rows = found;
}

/* ---- the table ---- */

function tableColumns() {
  const usual = columns.filter((c) => c.usual), isLast = (c) => !c.metric && !c.config; /* what became of it, which may be long */
  return [...usual.filter((c) => !isLast(c)), ...usual.filter(isLast)];
}

function headCell(column) {
  const sorted = state.sort === column, numeric = column.metric || typeof column.values.find((v) => !isNone(v)) === "number";
  const mark = sorted ? (state.descending ? " ▾" : " ▴") : "";
  const button = element("button", { type: "button", onclick: () => sortBy(column) }, (column.title || column.unit) + mark,
    column.unit && column.title ? element("small", {}, column.unit) : null);
  return element("th", { scope: "col", class: numeric ? "number" : undefined, "aria-sort": sorted ? (state.descending ? "descending" : "ascending") : "none", title: column.name }, button);
}

function sortBy(column) {
  state.descending = state.sort === column ? !state.descending : column.metric && column.kind === "rate";
  state.sort = column;
  update();
  const index = tableColumns().indexOf(column);
  document.querySelectorAll("#table th button")[index].focus();
}

function drawTable() {
  const visible = tableColumns(), head = element("tr", {}, ...visible.map(headCell), element("th", { class: "plain", scope: "col" }, "config"));
  document.querySelector("#table thead").replaceChildren(head);
  const body = rows.slice(0, state.limit).map((row) => element("tr", {},
    ...visible.map((column) => {
      const text = shown(column, row), classes = [];
      if (column.metric || typeof column.at(row) === "number") classes.push("number");
      if (column.name === "status") classes.push(text === "ok" ? "ok" : "bad");
      if (column.name === "error" || column.name === "doubts") classes.push("long");
      return element("td", { class: classes.join(" ") || undefined }, text);
    }),
    element("td", {}, element("button", { type: "button", "aria-label": `show the config of ${labelOf(row) || "the experiment"}`, onclick: () => showDetails(row) }, "show"))));
  document.querySelector("#table tbody").replaceChildren(...body);
  const left = rows.length - Math.min(rows.length, state.limit);
  $("more").hidden = left === 0;
  $("more").textContent = `Show ${Math.min(left, 5 * ROWS_AT_ONCE)} more of ${left}`;
  let text = `${rows.length.toLocaleString("en-US")} of ${data.rows.toLocaleString("en-US")} experiments`;
  const ok = rate ? rows.filter((row) => named("status").at(row) === "ok" && !isNone(rate.at(row))) : [];
  if (ok.length > 1) {
    const first = ok.reduce((a, b) => (rate.at(b) > rate.at(a) ? b : a));
    text += `; the fastest: ${labelOf(first)}, ${shown(rate, first)} ${rate.unit}`;
  }
  for (const name of state.unknown) text += `; "${name}" is no key of these records`;
  $("found").textContent = text;
}

function labelOf(row) {
  return data.keys.filter((key) => key.config && key.usual && !isNone(key.values[key.rows[row]]))
    .map((key) => `${key.name === "paradigm" || key.name === "name" ? "" : key.title + " "}${shown(named(key.name), row)}`).join(", ");
}

/* The config as it was: what all have, and what this one has. */
function configOf(row) {
  const config = {};
  const put = (path, value) => {
    const names = path.split(".");
    let here = config;
    for (const name of names.slice(0, -1)) here = Object.hasOwn(here, name) ? here[name] : (here[name] = {});
    here[names[names.length - 1]] = value;
  };
  for (const key of data.order) {
    const varying = data.keys.find((other) => other.config && other.name === key);
    const value = varying ? varying.values[varying.rows[row]] : data.constant[key];
    if (!isNone(value)) put(key, typeof value === "string" && /^\[.*\]$/.test(value) ? JSON.parse(value) : value);
  }
  return JSON.stringify(config, null, 2);
}

function showDetails(row) {
  const facts = columns.filter((c) => !isNone(c.at(row)) && !data.constant[c.name]);
  $("details-title").textContent = labelOf(row) || "Experiment";
  $("details-body").replaceChildren(
    element("dl", {}, ...facts.flatMap((c) => [element("dt", { title: c.name }, c.title || c.name), element("dd", {}, `${shown(c, row)} ${c.unit}`)])),
    element("pre", { id: "config", tabindex: "0" }, configOf(row)));
  $("copied").textContent = "";
  $("details").showModal();
}

async function copyConfig() {
  try {
    await navigator.clipboard.writeText($("config").textContent);
    $("copied").textContent = "copied";
  } catch {
    getSelection().selectAllChildren($("config"));
    $("copied").textContent = "selected: Ctrl-C copies it";
  }
}

/* ---- charts ---- */

let chart = null;

function colourOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/* A label in lines that have room in less than half of the chart. */
function labelLines(row) {
  const most = Math.min(52, Math.floor($("canvas").parentElement.clientWidth * 0.46 / 6.6)), lines = [""];
  for (const word of labelOf(row).split(/(?<=, )/)) {
    if (lines[lines.length - 1] && lines[lines.length - 1].length + word.trimEnd().length > most) lines.push("");
    lines[lines.length - 1] += word;
  }
  return lines.map((line) => line.trimEnd());
}

function stacked(names, title) {
  const parts = names.map(named).filter((c) => c && c.rows.some((v) => v > 0));
  const some = rows.filter((row) => named("status").at(row) === "ok").slice(0, BARS_AT_MOST);
  let largest = 0;
  for (const row of some) largest = Math.max(largest, parts.reduce((sum, part) => sum + (part.at(row) || 0), 0));
  const [unit, size] = parts.length ? unitOf(parts[0], largest) : ["", 1], labels = some.map(labelLines);
  return {
    note: some.length < rows.length ? `${some.length} of ${rows.length} experiments: those that are ok, the first ${BARS_AT_MOST}; filter and sort the table for others` : "",
    config: {
      type: "bar",
      data: { labels, datasets: parts.map((part, i) => ({ label: part.title, data: some.map((row) => (part.at(row) || 0) / size), backgroundColor: COLOURS[i] })) },
      options: options({ indexAxis: "y", x: { type: "linear", stacked: true, title: `${title}, ${unit}` }, y: { type: "category", stacked: true, autoSkip: false } }),
    },
    height: Math.max(16, 5 + (0.7 + 0.85 * Math.max(1, ...labels.map((lines) => lines.length))) * some.length),
  };
}

function over(x, y, series) {
  const groups = new Map();
  let failed = 0;
  for (const row of rows) {
    if (isNone(y.at(row))) { failed++; continue; }
    const group = series ? shown(series, row) : y.title || y.unit;
    if (!groups.has(group)) groups.set(group, new Map());
    const points = groups.get(group), place = x.at(row);
    /* several at one place: the highest, which the note says */
    points.set(place, points.has(place) ? Math.max(points.get(place), y.at(row)) : y.at(row));
  }
  const places = [...new Set(rows.map((row) => x.at(row)).filter((v) => !isNone(v)))];
  const numbers = places.length > 0 && places.every((v) => typeof v === "number");
  if (numbers) places.sort((a, b) => a - b);
  const names = [...groups.keys()].slice(0, SERIES_AT_MOST);
  const log = numbers && places[0] > 0 && places[places.length - 1] >= 8 * places[0];
  const datasets = names.map((name, i) => {
    const points = groups.get(name), colour = COLOURS[i % COLOURS.length];
    const values = numbers ? places.filter((p) => points.has(p)).map((p) => ({ x: p / x.size, y: points.get(p) / y.size }))
      : places.map((p) => (points.has(p) ? points.get(p) / y.size : null));
    /* the first is drawn last, and the thinnest: lines that lie on each other all show */
    return { label: name, data: values, borderColor: colour, backgroundColor: colour, pointStyle: MARKS[i % MARKS.length], pointRadius: Math.min(4 + i, 9), borderWidth: numbers ? Math.min(2 + i, 7) : 0 };
  });
  const many = rows.length - failed > datasets.reduce((sum, set) => sum + set.data.filter((v) => v !== null).length, 0);
  const notes = [];
  if (many) notes.push("where several experiments share a place, the highest value is shown");
  if (groups.size > names.length) notes.push(`${names.length} of ${groups.size} groups are shown`);
  if (failed) notes.push(`${failed} experiment${failed > 1 ? "s have" : " has"} no such value: out of memory, failed, or not measured`);
  return {
    note: notes.join("; "), height: 26,
    config: {
      type: numbers ? "line" : "bar",
      data: { labels: numbers ? undefined : places.map(String), datasets },
      options: options({ x: { type: numbers ? (log ? "logarithmic" : "linear") : "category", title: wordsOf(x), places: numbers ? places.map((p) => p / x.size) : null },
        y: { type: "linear", title: wordsOf(y) } }),
    },
  };
}

function options({ indexAxis = "x", x, y }) {
  const ink = colourOf("--ink"), line = colourOf("--line");
  const axis = (a) => ({
    type: a.type, stacked: a.stacked, beginAtZero: a.type !== "logarithmic", title: { display: !!a.title, text: a.title, color: ink },
    ticks: { color: ink, autoSkip: a.autoSkip ?? true, ...(a.numeric ? { callback: (v) => Number(v).toLocaleString("en-US") } : {}) }, grid: { color: line },
    ...(a.places ? { min: a.places[0] / (a.type === "logarithmic" ? 1.08 : 1), max: a.places[a.places.length - 1] * (a.type === "logarithmic" ? 1.08 : 1) } : {}),
    ...(a.places ? { afterBuildTicks: (scale) => { scale.ticks = a.places.filter((_, i) => i % Math.ceil(a.places.length / 14) === 0).map((value) => ({ value })); } } : {}),
  });
  const scales = { x: axis({ ...x, numeric: indexAxis === "y" || x.places }), y: axis({ ...y, numeric: indexAxis === "x" }) };
  return { indexAxis, animation: false, maintainAspectRatio: false, interaction: { mode: "nearest", intersect: false }, scales,
    plugins: { legend: { labels: { color: ink, usePointStyle: true } }, tooltip: { callbacks: { label: (item) => `${item.dataset.label}: ${short(item.parsed[indexAxis === "y" ? "x" : "y"])}` } } } };
}

const PRESETS = [
  { name: "Throughput", works: () => rate, choose: () => choose(firstKey(), rate, secondKey()) },
  { name: "Parts of a step", works: () => PARTS.some(named), stack: [PARTS, "time of a step, mean of the ranks"] },
  { name: "Memory by category", works: () => named("peak_bytes.parameters"), stack: [CATEGORIES.map((c) => "peak_bytes." + c), "peak of each category on the fullest rank"] },
  { name: "Scaling", works: () => rate && hasKey("world_size"), choose: () => choose(named("world_size"), rate, otherKey("world_size")) },
  { name: "Bubble", works: () => named("bubble") && named("bubble").rows.some((v) => v > 0), choose: () => choose(firstKey(), named("bubble"), secondKey()) },
];
let preset = null;

const varying = () => columns.filter((c) => !c.metric && c.config && c.usual && c.values.length > 1);
const hasKey = (name) => varying().some((c) => c.name === name);
const otherKey = (name) => varying().find((c) => c.name === "paradigm" && c.name !== name) || varying().find((c) => c.name !== name) || null;
/* the numbers of a sweep are what lines run over, and its words what tells them apart */
const isNumber = (c) => c.values.every((v) => isNone(v) || typeof v === "number");
const firstKey = () => varying().filter(isNumber).sort((a, b) => b.values.length - a.values.length)[0] || varying()[0] || columns[0];
const secondKey = () => varying().find((c) => c !== firstKey() && !isNumber(c)) || otherKey(firstKey().name);

function choose(x, y, series) {
  $("x").value = x.name;
  $("y").value = y.name;
  $("series").value = series ? series.name : "";
}

function drawChart() {
  if (typeof Chart === "undefined") return;
  const made = preset && preset.stack ? stacked(...preset.stack) : over(named($("x").value), named($("y").value), $("series").value ? named($("series").value) : null);
  if (chart) chart.destroy();
  $("canvas").parentElement.style.height = `${made.height}rem`;
  $("canvas").parentElement.style.maxHeight = made.height > 26 ? "none" : "";
  chart = new Chart($("canvas"), made.config);
  $("chart-note").textContent = made.note;
  $("canvas").setAttribute("aria-label", `${preset ? preset.name : `${wordsOf(named($("y").value))} over ${wordsOf(named($("x").value))}`}; the table has its numbers`);
  for (const button of $("presets").children) button.setAttribute("aria-pressed", String(preset !== null && button.textContent === preset.name));
}

function startCharts() {
  if (typeof Chart === "undefined") {
    $("no-charts").hidden = false;
    return;
  }
  const keys = columns.filter((c) => !c.metric && c.config), metrics = columns.filter((c) => c.metric);
  const option = (c) => element("option", { value: c.name }, wordsOf(c) === c.name ? c.name : `${wordsOf(c)} (${c.name})`);
  $("x").append(...(varying().length ? varying() : keys).map(option), ...metrics.map(option));
  $("y").append(...metrics.map(option));
  $("series").append(element("option", { value: "" }, "nothing"), ...keys.map(option));
  if (!metrics.length || !$("x").children.length) return;
  $("charts").hidden = false;
  for (const id of ["x", "y", "series"]) $(id).addEventListener("change", () => { preset = null; drawChart(); });
  for (const one of PRESETS.filter((p) => p.works()))
    $("presets").append(element("button", { type: "button", "aria-pressed": "false", onclick: () => { preset = one; if (one.choose) one.choose(); drawChart(); } }, one.name));
  preset = PRESETS.find((p) => p.works()) || null;
  if (preset && preset.choose) preset.choose();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawChart);
}

/* ---- the other sections ---- */

function drawComparison() {
  const compare = data.compare;
  if (!compare) return;
  const counts = Object.entries(compare.verdicts).filter(([, n]) => n > 0).map(([name, n]) => `${n} ${name}`).join(", ");
  const cell = (text, number) => element("td", { class: number ? "number" : undefined }, text);
  const head = ["experiment", "ratio", "90 % interval", "verdict", "why"];
  $("comparison").append(
    element("p", {}, `Throughput of these records over that of the base: ${counts}. ${compare.method}; threshold ${100 * compare.threshold} %.`),
    ...["different", "noted", "predicted"].filter((key) => compare[key]).map((key) => element("p", { class: "note" }, key === "predicted" ? compare[key] : `${key}: ${compare[key]}`)),
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": "comparison-title" }, element("table", {},
      element("thead", {}, element("tr", {}, ...head.map((text) => element("th", { class: "plain", scope: "col" }, text)))),
      element("tbody", {}, ...compare.experiments.map((row) => element("tr", {}, cell(row.experiment), cell(isNone(row.throughput_ratio) ? "-" : row.throughput_ratio.toFixed(3), true),
        cell(isNone(row.interval[0]) ? "-" : `${row.interval[0].toFixed(3)} to ${row.interval[1].toFixed(3)}`, true),
        element("td", { class: row.regressions.length || ["slower", "failed", "missing"].includes(row.verdict) ? "bad" : row.verdict }, row.verdict), element("td", { class: "long" }, row.reason || "")))))));
  $("comparison").hidden = false;
}

function drawPlan() {
  const plan = data.plan;
  if (!plan || !Array.isArray(plan.plans)) return;
  const list = (title, lines) => (lines && lines.length ? [element("h3", {}, title), element("ul", {}, ...lines.map((text) => element("li", {}, String(text))))] : []);
  const rate = Object.keys(plan.plans[0] || {}).find((key) => key.endsWith("_per_s")); /* of what the model counts */
  for (const [i, one] of plan.plans.entries())
    $("plan").append(element("h3", {}, `${i + 1}. ${one.strategy}`), element("p", {}, `${short(one[rate])} ${rate.slice(0, -"_per_s".length)}/s, step ${short(one.step_s)} s, peak ${short(one.peak_bytes / 2 ** 30)} GiB`),
      ...list("", one.why));
  $("plan").append(...list("Why not", plan.why_not), ...list("What would change it", plan.what_would_change_it), ...list("How sure this is", plan.confidence));
  $("plan").hidden = false;
}

/* A pipeline's passes: a row for each rank, a box for the time of a forward pass. */
function drawPipelines() {
  const fills = { F: 0, B: 1, I: 5, W: 3, R: 4, H: 2, U: 7 };
  for (const { title, lines, legend } of data.pipelines || []) {
    const width = Math.max(...lines.map((line) => line.length)), left = 60, box = Math.max(4, Math.min(18, Math.floor(1200 / width))), height = 18;
    const space = "http://www.w3.org/2000/svg";
    const make = (name, attributes, text) => {
      const made = document.createElementNS(space, name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      if (text !== undefined) made.textContent = text;
      return made;
    };
    const picture = make("svg", { class: "plan", width: left + box * width, height: height * lines.length, role: "img", "aria-label": `${title}: ${legend}` });
    lines.forEach((line, rank) => {
      picture.append(make("text", { x: 0, y: rank * height + 13 }, `rank ${rank}`));
      [...line].forEach((letter, column) => {
        const fill = fills[letter.toUpperCase()];
        if (fill === undefined) return;
        const rectangle = make("rect", { x: left + column * box, y: rank * height + 1, width: Math.max(box - 1, 1), height: height - 2, fill: COLOURS[fill], opacity: letter === letter.toLowerCase() ? 0.55 : 1 });
        picture.append(rectangle);
        if (box >= 12) picture.append(make("text", { x: left + column * box + box / 2, y: rank * height + 13, "text-anchor": "middle", style: "fill:#000" }, letter));
      });
    });
    $("pipelines").append(element("h3", {}, title), element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, picture), element("p", { class: "note" }, legend));
    $("pipelines").hidden = false;
  }
}

function update() {
  chooseRows();
  drawTable();
  drawChart();
}

async function start() {
  data = await readData();
  columns = makeColumns(data);
  rate = named(data.rate || "") || null;
  document.title = data.title;
  $("title").textContent = data.title;
  $("about").textContent = data.about;
  $("predicted").textContent = data.predicted;
  $("predicted").hidden = !data.predicted;
  $("best").append(element("option", { value: "" }, "- all are shown -"), ...columns.filter((c) => !c.metric && c.config && c.values.length > 1).map((c) => element("option", { value: c.name }, c.title)));
  $("provenance").append(...data.provenance.flatMap(({ name, values }) => [element("dt", {}, name), element("dd", {}, values.map(([value, count]) => (values.length > 1 ? `${value} (${count})` : value)).join(", "))]));
  startCharts();
  drawComparison();
  drawPlan();
  drawPipelines();
  update();
  let timer = 0;
  $("filter").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => { state.filter = $("filter").value; state.limit = ROWS_AT_ONCE; update(); }, 150); });
  $("best").addEventListener("change", () => { state.best = $("best").value; update(); });
  $("more").addEventListener("click", () => {
    const first = state.limit;
    state.limit += 5 * ROWS_AT_ONCE;
    drawTable();
    document.querySelectorAll("#table tbody button")[first].focus(); /* where the reader goes on */
  });
  $("close").addEventListener("click", () => $("details").close());
  $("copy").addEventListener("click", copyConfig);
  document.body.dataset.ready = "yes";
}

start();
