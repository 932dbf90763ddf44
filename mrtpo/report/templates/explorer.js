"use strict";
// The credit explorer: draws one response of #data at a time. mrtpo/report/explorer.py has the
// format. Whatever a model wrote reaches the page as text nodes alone.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const SHADE = 0.75, SATURATED = 6, TOGETHER = "";
  const state = { at: 0, reward: TOGETHER, view: "advantage", all: false, shown: [] };
  let drawn = null; // the response on the page, decoded
  let blocks = []; // its heat maps
  let current = null; // { block, side, t } under the pointer or the keyboard

  function el(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "text") made.textContent = value;
      else if (key in made && key !== "list") made[key] = value;
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  // --- numbers ---------------------------------------------------------------------------------
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

  function halves(text) {
    const view = new DataView(bytes(text).buffer);
    return Float32Array.from({ length: view.byteLength / 2 }, (_, at) => {
      const bits = view.getUint16(2 * at, true);
      const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, rest = bits & 1023;
      if (exponent === 31) return rest ? NaN : sign * Infinity;
      return sign * (exponent ? 2 ** (exponent - 15) * (1 + rest / 1024) : 2 ** -24 * rest);
    });
  }

  function number(value, signed = false) {
    if (value === null || Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    const size = Math.abs(value);
    const text = size && (size < 1e-3 || size >= 1e4) ? size.toExponential(1) : String(Number(size.toPrecision(3)));
    return (value < 0 ? "−" : signed && value > 0 ? "+" : "") + text;
  }
  const percent = (value) => `${(100 * value).toFixed(value < 0.0995 ? 1 : 0)} %`;

  function visible(piece) {
    if (piece === "") return "◦";
    return piece.replace(/\r/g, "").replace(/\n/g, "↵\n").replace(/\t/g, "→   ")
      .replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "·");
  }

  // --- one response ------------------------------------------------------------------------------
  function decode(response) {
    const words = new Uint32Array(bytes(response.t).buffer);
    const parts = bytes(response.q);
    const n = words.length;
    const rewards = response.rewards.map((reward) => {
      const made = { ...reward, name: data.rewards[reward.n], live: Boolean(reward.x) };
      const packed = made.live ? halves(reward.x) : null;
      const slice = (at, other) => (packed ? packed.subarray(at * n, (at + 1) * n) : new Float32Array(n).fill(other));
      made.told = slice(0, NaN);
      made.untold = slice(1, NaN);
      made.distance = slice(2, 0);
      made.weight = slice(3, 1);
      made.gdpo = new Float32Array(n).fill(reward.a);
      made.mrtpo = made.weight.map((weight) => weight * reward.a);
      made.delta = made.told.map((told, t) => (made.live ? told - made.untold[t] : 0));
      return made;
    });
    const sum = (key) => Float32Array.from({ length: n }, (_, t) => rewards.reduce((all, r) => all + r[key][t], 0));
    const together = {
      name: TOGETHER, title: "all together", live: rewards.some((r) => r.live),
      a: rewards.reduce((all, r) => all + r.a, 0), gdpo: sum("gdpo"), mrtpo: sum("mrtpo"),
    };
    return { response, n, pieces: Array.from(words, (w) => data.pieces[w]), parts, rewards, together };
  }

  const largest = (rows) => rows.reduce((top, row) => row.reduce((t, v) => (Number.isFinite(v) ? Math.max(t, Math.abs(v)) : t), top), 0);

  /** What a view shows: the two sides, their titles, the value in full colour and its colours. */
  function viewOf(reward) {
    const view = reward === drawn.together ? "advantage" : state.view;
    const live = drawn.rewards.filter((r) => r.live);
    if (view === "weight") {
      const top = largest(live.map((r) => r.weight));
      const ones = new Float32Array(drawn.n).fill(1);
      return { view, sides: [ones, reward.weight], titles: ["GDPO: 1 everywhere", "MRTPO: weight"], warm: [true, true],
        peak: Math.max(1, Math.min(top, SATURATED)), top, what: "weight" };
    }
    if (view === "distance") {
      const top = largest(live.flatMap((r) => [r.distance, r.delta]));
      return { view, sides: [reward.delta, reward.distance], titles: ["Δ log-probability, told − not told", "Distance"],
        warm: [false, true], peak: Math.min(top, 3) || 1, top, what: "nats" };
    }
    const rows = [...drawn.rewards, drawn.together];
    const top = largest(rows.map((r) => r.mrtpo));
    const even = Math.max(...rows.map((r) => Math.abs(r.a)));
    return { view, sides: [reward.gdpo, reward.mrtpo], titles: ["GDPO", "MRTPO"], warm: [false, false],
      peak: Math.min(Math.max(top, even), SATURATED * even) || 1, top, what: "advantage of a token" };
  }

  const strength = (value, peak) => Math.min(1, Math.abs(value) / peak) ** SHADE;

  function fill(pre, values, peak, warm) {
    const spans = Array.from(values, (value, t) => {
      const span = el("span", { text: visible(drawn.pieces[t]) });
      const size = Number.isNaN(value) ? 0 : strength(value, peak);
      if (size > 0.004) {
        span.className = warm ? "o" : value > 0 ? "p" : "n";
        span.style.setProperty("--c", size.toFixed(3));
      }
      span.dataset.t = t;
      return span;
    });
    pre.replaceChildren(...spans);
    return spans;
  }

  function block(reward) {
    const shown = viewOf(reward);
    const node = el("section", { className: "map waiting" });
    const note = reward.name === TOGETHER ? `sum of advantages ${number(reward.a, true)}`
      : `${verdictText(reward)} · advantage ${number(reward.a, true)}${reward.why ? ` · not replayed: ${reward.why}` : ""}`;
    node.append(el("h3", { text: `${titleOf(reward)} ` }, el("small", { text: note })));
    const pair = el("div", { className: "pair" });
    const made = { reward, node, spans: null, fill: null };
    const pres = shown.titles.map((title, side) => {
      const label = `${titleOf(reward)}, ${title}. Arrow keys move from token to token.`;
      const pre = el("pre", { className: "tokens", tabIndex: 0, role: "group", "aria-label": label });
      pre.dataset.side = side;
      pair.append(el("div", {}, el("h4", { text: title }), pre));
      return pre;
    });
    node.append(pair);
    node.made = made;
    made.fill = () => {
      if (made.spans) return;
      made.spans = pres.map((pre, side) => fill(pre, shown.sides[side], shown.peak, shown.warm[side]));
      node.classList.remove("waiting");
    };
    return made;
  }

  const titleOf = (reward) => reward.title || reward.name;
  const verdictText = (reward) => reward.v === null ? (reward.st === "ok" ? "undecided" : reward.st) : reward.v === 1 ? "passed" : reward.v === 0 ? "failed" : number(reward.v);
  const verdictClass = (value) => (value === null ? "" : value >= 1 ? "good" : value <= 0 ? "bad" : "half");

  // Heat maps of many rewards are drawn as they come into view.
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) entry.target.made.fill();
  }, { rootMargin: "600px" });
  addEventListener("beforeprint", () => blocks.forEach((made) => made.fill()));

  function chosen() {
    return drawn.rewards.find((r) => r.name === state.reward) || drawn.together;
  }

  function drawMaps() {
    watcher.disconnect();
    leave();
    const wanted = state.all ? [drawn.together, ...drawn.rewards.filter((r) => r.a !== 0)] : [chosen()];
    blocks = wanted.map(block);
    $("maps").replaceChildren(...blocks.map((made) => made.node));
    for (const made of blocks) if (blocks.length > 1) watcher.observe(made.node); else made.fill();
    const mixed = state.all ? drawn.rewards[0] || drawn.together : chosen();
    const shown = viewOf(mixed);
    const more = shown.top > shown.peak * 1.001 ? `, full colour beyond (largest ${number(shown.top)})` : "";
    const from = (warm) => warm ? "transparent" : "color-mix(in srgb, var(--neg) 64%, transparent)";
    const to = (warm) => warm ? "color-mix(in srgb, var(--warm) 70%, transparent)" : "color-mix(in srgb, var(--pos) 64%, transparent)";
    const bar = (warm) => {
      const made = el("i");
      made.style.background = `linear-gradient(90deg, ${from(warm)}, transparent ${warm ? 0 : 50}%, ${to(warm)})`;
      return el("b", {}, el("span", { text: warm ? "0" : number(-shown.peak) }), made, el("span", { text: number(shown.peak, !warm) }));
    };
    const kinds = [...new Set(shown.warm)];
    $("legend").replaceChildren(...kinds.map(bar), el("span", { text: shown.what + more }));
    document.querySelectorAll("#rewards tbody tr").forEach((row) => {
      const on = !state.all && row.dataset.name === chosen().name;
      row.classList.toggle("on", on);
      row.querySelector("button").setAttribute("aria-pressed", on);
    });
    document.querySelectorAll("[name=view]").forEach((radio) => {
      radio.checked = radio.value === shown.view;
    });
    $("all").checked = state.all;
    remember();
  }

  function drawStrips() {
    const probe = el("i");
    document.body.append(probe);
    const colour = (name) => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
    const [pos, neg] = [colour("--pos"), colour("--neg")];
    probe.remove();
    const { peak } = viewOf(drawn.together);
    document.querySelectorAll("#rewards canvas").forEach((canvas) => {
      const { mrtpo } = canvas.reward;
      const width = (canvas.width = Math.max(60, canvas.clientWidth * devicePixelRatio));
      canvas.height = 14 * devicePixelRatio;
      const pen = canvas.getContext("2d");
      mrtpo.forEach((value, t) => {
        pen.globalAlpha = 0.9 * strength(value, peak);
        pen.fillStyle = value > 0 ? pos : neg;
        pen.fillRect((t * width) / drawn.n, 0, Math.max(1, width / drawn.n - 0.5), canvas.height);
      });
    });
  }

  function drawRewards() {
    const rows = [drawn.together, ...drawn.rewards].map((reward, at) => {
      const canvas = el("canvas", { "aria-hidden": "true" });
      canvas.reward = reward;
      const verdict = el("td");
      const detail = [reward.d, reward.why && reward.a ? `not replayed: ${reward.why}` : ""].filter(Boolean).join(" · ");
      if (reward !== drawn.together) {
        verdict.append(el("span", { className: `chip ${verdictClass(reward.v)}`, text: verdictText(reward) }));
        if (reward.st !== "ok" && reward.v !== null) verdict.append(el("span", { className: "chip", text: reward.st }));
      }
      const top = reward.live && reward.top !== undefined && reward.top > 0 ? `${percent(reward.top)}` : "–";
      const tint = reward.a > 0 ? "up" : reward.a < 0 ? "down" : "";
      const row = el("tr", {},
        el("th", { scope: "row" }, el("button", { type: "button", text: titleOf(reward), "aria-pressed": "false", title: `key ${at}` }),
          el("span", { className: "detail", text: detail })),
        verdict, el("td", { className: `r ${tint}`, text: number(reward.a, true) }),
        el("td", { className: "where" }, canvas), el("td", { className: "r", text: reward === drawn.together ? "" : top }));
      row.dataset.name = reward.name;
      row.addEventListener("click", () => select(reward.name));
      return row;
    });
    document.querySelector("#rewards tbody").replaceChildren(...rows);
  }

  function draw() {
    const response = data.responses[state.at];
    const prompt = data.prompts[response.p];
    drawn = decode(response);
    $("question").textContent = prompt.question || prompt.id;
    const ended = response.end === false ? " · cut off" : "";
    $("about").textContent = `${prompt.id} · response ${response.s} · ${drawn.n} tokens${ended}${prompt.about ? ` · ${prompt.about}` : ""}`;
    $("reference").textContent = prompt.reference;
    $("reference-box").hidden = !prompt.reference;
    const told = drawn.rewards.filter((r) => r.i);
    $("information").hidden = !told.length;
    $("information").lastElementChild.replaceChildren(...told.flatMap((r) => [el("h4", { text: titleOf(r) }), el("pre", { className: "text", text: r.i })]));
    $("prompt").hidden = !prompt.messages.length;
    $("prompt").lastElementChild.replaceChildren(...prompt.messages.flatMap(([role, content]) => [el("h4", { text: role }), el("pre", { className: "text", text: content })]));
    $("response").classList.toggle("many", drawn.rewards.length > 5);
    $("response").classList.toggle("bare", !prompt.reference && !told.length && !prompt.messages.length);
    drawRewards();
    drawMaps();
    drawStrips();
    mark();
  }

  function mark() {
    const place = state.shown.indexOf(state.at);
    $("previous").disabled = place === 0 || !state.shown.length;
    $("next").disabled = place === state.shown.length - 1 || !state.shown.length;
    $("place").textContent = place < 0 ? "not among those shown" : `${place + 1} of ${state.shown.length}`;
    for (const button of $("list").querySelectorAll("[aria-current]")) button.removeAttribute("aria-current");
    const own = place < 0 ? null : $("list").children[place].firstElementChild;
    if (own) {
      own.setAttribute("aria-current", "true");
      const list = $("list"), top = own.parentElement.offsetTop - list.offsetTop;
      if (top < list.scrollTop || top + own.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top - list.clientHeight / 3;
    }
  }

  function go(by) {
    const place = state.shown.indexOf(state.at);
    const next = place < 0 ? 0 : place + by;
    if (next < 0 || next >= state.shown.length) return;
    open(state.shown[next]);
  }
  function open(at) {
    state.at = at;
    draw();
    scrollTo({ top: 0 });
  }
  function select(name) {
    state.reward = name;
    state.all = false;
    drawMaps();
  }

  // --- filters -----------------------------------------------------------------------------------
  const VERDICTS = {
    passed: (r) => r.v !== null && r.v >= 1, failed: (r) => r.v !== null && r.v <= 0,
    between: (r) => r.v !== null && r.v > 0 && r.v < 1, undecided: (r) => r.v === null,
    credit: (r) => r.a > 0, penalty: (r) => r.a < 0, skipped: (r) => !r.x,
  };
  const texts = new Map();
  function textOf(response) {
    if (!texts.has(response)) {
      const prompt = data.prompts[response.p];
      const words = Array.from(new Uint32Array(bytes(response.t).buffer), (w) => data.pieces[w]);
      texts.set(response, `${prompt.id} ${prompt.question}\n${words.join("")}`.toLowerCase());
    }
    return texts.get(response);
  }
  const ORDERS = {
    share: (r) => -Math.max(0, ...r.rewards.map((k) => (k.x ? k.top : 0))),
    penalty: (r) => Math.min(...r.rewards.map((k) => k.a)),
    conflict: (r) => -Math.min(Math.max(0, ...r.rewards.map((k) => k.a)), Math.max(0, ...r.rewards.map((k) => -k.a))),
  };

  function filter() {
    const wanted = $("search").value.trim().toLowerCase();
    const name = $("reward").value === "" ? null : Number($("reward").value);
    const verdict = VERDICTS[$("verdict").value], part = $("part").value, share = Number($("share").value);
    const fits = (r) => (name === null || r.f === name) && (!verdict || verdict(r))
      && (part === "" || (r.x && r.part === Number(part))) && (!share || (r.x && r.top >= share));
    state.shown = data.responses.map((_, at) => at)
      .filter((at) => data.responses[at].rewards.some(fits) && (!wanted || textOf(data.responses[at]).includes(wanted)));
    const order = ORDERS[$("order").value];
    if (order) {
      const keys = new Map(state.shown.map((at) => [at, order(data.responses[at])]));
      state.shown.sort((a, b) => keys.get(a) - keys.get(b) || a - b);
    }
    const total = data.responses.length;
    $("count").textContent = state.shown.length === total ? `${total} responses` : state.shown.length ? `${state.shown.length} of ${total} responses` : "No response fits";
    $("list").replaceChildren(...state.shown.map((at) => {
      const response = data.responses[at], prompt = data.prompts[response.p];
      const dots = response.rewards.map((r) => el("i", { className: `dot ${verdictClass(r.v)}`, title: `${data.rewards[r.n]}: ${verdictText(r)}` }));
      const button = el("button", { type: "button" }, el("b", { text: prompt.question || prompt.id }),
        el("small", {}, el("span", { text: `${prompt.id} · ${response.s}` }), ...dots));
      button.addEventListener("click", () => open(at));
      return el("li", {}, button);
    }));
    if (state.shown.length && !state.shown.includes(state.at)) open(state.shown[0]);
    else mark();
  }

  // --- tokens: pointer and keyboard ----------------------------------------------------------------
  function row(label, ...values) {
    return el("tr", {}, el("th", { scope: "row", text: label }), ...values.map((text) => el("td", { text })));
  }
  function numbers(reward, t) {
    if (reward === drawn.together) {
      return [row("GDPO, sum", number(reward.gdpo[t], true)), row("MRTPO, sum", number(reward.mrtpo[t], true)),
        ...drawn.rewards.filter((r) => r.a).map((r) => row(titleOf(r), `× ${number(r.weight[t])}`, number(r.mrtpo[t], true)))];
    }
    const told = reward.live ? [row("probability, told", number(Math.exp(reward.told[t])), `log ${number(reward.told[t])}`),
      row("not told", number(Math.exp(reward.untold[t])), `log ${number(reward.untold[t])}`),
      row("Δ log-probability", number(reward.delta[t], true)), row("distance", number(reward.distance[t]))] : [];
    return [...told, row("weight", number(reward.weight[t])), row("advantage, GDPO", number(reward.a, true)),
      row("advantage, MRTPO", number(reward.mrtpo[t], true))];
  }

  function enter(made, side, t, spoken = false) {
    if (current && current.block === made && current.t === t && current.side === side) return;
    leave();
    current = { block: made, side, t };
    for (const spans of made.spans) spans[t].classList.add("at");
    const tip = $("tip"), piece = drawn.pieces[t];
    const part = data.parts[drawn.parts[t]];
    tip.replaceChildren(el("b", {}, el("code", { text: visible(piece).replace(/\n/g, "") }), ` token ${t + 1} of ${drawn.n}${part ? `, ${part}` : ""}`),
      el("table", {}, el("tbody", {}, ...numbers(made.reward, t))));
    tip.hidden = false;
    const at = made.spans[side][t].getClientRects()[0] || made.spans[side][t].getBoundingClientRect();
    const box = tip.getBoundingClientRect();
    const above = at.top - box.height - 8;
    tip.style.left = `${Math.max(8, Math.min(at.left, innerWidth - box.width - 8))}px`;
    tip.style.top = `${above > 60 ? above : Math.min(at.bottom + 8, innerHeight - box.height - 8)}px`;
    if (spoken) {
      const lines = numbers(made.reward, t).map((line) => Array.from(line.children, (c) => c.textContent).join(" "));
      $("said").textContent = `${piece.trim() || "space"}: ${lines.join(", ")}`;
    }
  }
  function leave() {
    if (!current) return;
    for (const spans of current.block.spans || []) spans[current.t]?.classList.remove("at");
    current = null;
    $("tip").hidden = true;
  }
  const blockOf = (node) => node.closest(".map").made;
  $("maps").addEventListener("pointerover", (event) => {
    const span = event.target.closest(".tokens span");
    if (span) enter(blockOf(span), Number(span.parentElement.dataset.side), Number(span.dataset.t));
    else leave();
  });
  $("maps").addEventListener("pointerleave", leave);
  $("maps").addEventListener("focusout", leave);
  $("maps").addEventListener("keydown", (event) => {
    const pre = event.target.closest(".tokens");
    if (!pre || event.ctrlKey || event.metaKey || event.altKey) return;
    const made = blockOf(pre), side = Number(pre.dataset.side), spans = made.spans[side];
    const from = current && current.block === made ? current.t : -1;
    const moves = { ArrowRight: () => from + 1, ArrowLeft: () => from - 1, Home: () => 0, End: () => drawn.n - 1,
      ArrowDown: () => beside(spans, from, 1), ArrowUp: () => beside(spans, from, -1) };
    if (!moves[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    const t = Math.max(0, Math.min(drawn.n - 1, moves[event.key]()));
    spans[t].scrollIntoView({ block: "nearest" });
    enter(made, side, t, true);
  });
  /** The token of the next line up or down that stands nearest below or above. */
  function beside(spans, from, way) {
    if (from < 0) return 0;
    const own = spans[from].getClientRects()[0];
    let best = from, line = null, gap = Infinity;
    for (let t = from + way; t >= 0 && t < spans.length; t += way) {
      const box = spans[t].getClientRects()[0];
      if (!box || Math.abs(box.top - own.top) < 4) continue;
      line ??= box.top;
      if (Math.abs(box.top - line) > 4) break;
      const away = Math.abs(box.left - own.left);
      if (away < gap) [best, gap] = [t, away];
    }
    return best;
  }

  // --- the page ------------------------------------------------------------------------------------
  const VIEWS = ["advantage", "weight", "distance"];
  const THEMES = ["auto", "light", "dark"];
  function theme() {
    const now = document.documentElement.dataset.theme || "auto";
    const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    document.documentElement.dataset.theme = next;
    $("theme").textContent = next[0].toUpperCase() + next.slice(1);
    drawStrips();
  }
  function setView(view) {
    state.view = view;
    if (!state.all && chosen() === drawn.together && view !== "advantage") {
      const first = drawn.rewards.find((r) => r.live);
      if (first) state.reward = first.name;
    }
    drawMaps();
  }

  const KEYS = {
    ArrowRight: () => go(1), j: () => go(1), ArrowLeft: () => go(-1), k: () => go(-1),
    v: () => setView(VIEWS[(VIEWS.indexOf(viewOf(chosen()).view) + 1) % VIEWS.length]),
    a: () => { state.all = !state.all; drawMaps(); }, t: theme,
    "/": () => { $("panel").open = true; $("search").focus(); }, "?": () => $("help").showModal(),
    Escape: leave,
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
    if (event.target.closest("input, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (/^[0-9]$/.test(event.key)) {
      const reward = event.key === "0" ? drawn.together : drawn.rewards[Number(event.key) - 1];
      if (reward) select(reward.name);
    } else if (KEYS[event.key]) {
      event.preventDefault();
      KEYS[event.key]();
    }
  });

  function remember() {
    const parts = new URLSearchParams({ r: state.at, view: state.view });
    if (state.reward) parts.set("reward", state.reward);
    if (state.all) parts.set("all", "1");
    history.replaceState(null, "", `#${parts}`);
  }
  function recall() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const at = Number(parts.get("r"));
    if (Number.isInteger(at) && at >= 0 && at < data.responses.length) state.at = at;
    if (VIEWS.includes(parts.get("view"))) state.view = parts.get("view");
    state.reward = parts.get("reward") || TOGETHER;
    state.all = parts.get("all") === "1";
  }

  $("previous").addEventListener("click", () => go(-1));
  $("next").addEventListener("click", () => go(1));
  $("all").addEventListener("change", () => { state.all = $("all").checked; drawMaps(); });
  $("views").addEventListener("change", (event) => setView(event.target.value));
  $("theme").addEventListener("click", theme);
  $("help-open").addEventListener("click", () => $("help").showModal());
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("filters").addEventListener("input", filter);
  $("filters").addEventListener("reset", () => setTimeout(filter));
  addEventListener("hashchange", () => { recall(); draw(); });
  addEventListener("resize", () => { leave(); if (drawn) drawStrips(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawStrips);
  if (matchMedia("(max-width: 60rem)").matches) $("panel").open = false;

  $("reward").append(...data.filed.map((name, at) => el("option", { value: at, text: name })));
  $("part").append(...data.parts.map((name, at) => el("option", { value: at, text: name || "other" })));
  recall();
  state.shown = data.responses.map((_, at) => at);
  filter();
  draw();
})();
