"use strict";
// Tooltips, in place of those that take a second to appear.
const tip = document.getElementById("tip");
for (const title of document.querySelectorAll("svg title")) {
  title.parentElement.dataset.tip = title.textContent;
  title.parentElement.setAttribute("aria-label", title.textContent);
  title.remove();
}
document.addEventListener("pointermove", (event) => {
  const of = event.target.closest?.("[data-tip]");
  tip.hidden = !of;
  if (!of) return;
  tip.textContent = of.dataset.tip;
  const { width, height } = tip.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, innerWidth - width - 8);
  const y = event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18;
  tip.style.left = `${x}px`;
  tip.style.top = `${y}px`;
});
document.addEventListener("pointerleave", () => { tip.hidden = true; });

// Everything that leads to an operator and from it, however far.
function reach(start, next) {
  const seen = new Set([start]);
  const queue = [start];
  while (queue.length) for (const to of next.get(queue.pop()) ?? []) if (!seen.has(to)) { seen.add(to); queue.push(to); }
  return seen;
}
for (const svg of document.querySelectorAll("svg.dataflow")) {
  const ways = [...svg.querySelectorAll(".way")];
  const operators = [...svg.querySelectorAll(".op")];
  const [after, before] = [new Map(), new Map()];
  const add = (map, key, value) => map.has(key) ? map.get(key).push(value) : map.set(key, [value]);
  for (const way of ways) { add(after, way.dataset.s, way.dataset.t); add(before, way.dataset.t, way.dataset.s); }
  let pinned = null;
  const clear = () => { svg.classList.remove("focus"); svg.querySelectorAll(".near").forEach((of) => of.classList.remove("near")); };
  const focus = (index) => {
    clear();
    const [down, up] = [reach(index, after), reach(index, before)];
    svg.classList.add("focus");
    for (const of of operators) if (down.has(of.dataset.i) || up.has(of.dataset.i)) of.classList.add("near");
    for (const way of ways) {
      const { s, t } = way.dataset;
      if ((down.has(s) && down.has(t)) || (up.has(s) && up.has(t))) way.classList.add("near");
    }
  };
  for (const operator of operators) {
    operator.addEventListener("pointerenter", () => { if (!pinned) focus(operator.dataset.i); });
    operator.addEventListener("pointerleave", () => { if (!pinned) clear(); });
    operator.addEventListener("click", (event) => { event.stopPropagation(); pinned = operator.dataset.i; focus(pinned); });
  }
  svg.addEventListener("click", () => { pinned = null; clear(); });
}

// Zoom, and which form is shown.
for (const figure of document.querySelectorAll(".graph")) {
  const scale = (svg, to) => {
    const { width, height } = svg.viewBox.baseVal;
    svg.dataset.scale = to;
    svg.setAttribute("width", width * to);
    svg.setAttribute("height", height * to);
  };
  figure.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.form) {
      const all = figure.dataset.form !== "all";
      figure.dataset.form = all ? "all" : "main";
      button.setAttribute("aria-pressed", all);
      return;
    }
    const view = figure.querySelector(`.view.${figure.dataset.form}`);
    const svg = view.querySelector("svg");
    const fit = (view.clientWidth - 2) / svg.viewBox.baseVal.width;
    scale(svg, button.dataset.zoom === "fit" ? fit : (svg.dataset.scale ?? 1) * button.dataset.zoom);
  });
}

// Tables of operators are sorted by whatever column one asks for.
const figureOf = (text) => {
  const match = text.replaceAll(",", "").match(/^(-?[\d.]+)\s*(\S*)/);
  const factor = { "µs": 1, "ms": 1e3, "s": 1e6, "KB": 1024, "MB": 1024 ** 2, "GB": 1024 ** 3 };
  return match ? match[1] * (factor[match[2]] ?? 1) : -1;
};
for (const table of document.querySelectorAll("table.operators")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!head.textContent) return;
    head.setAttribute("aria-sort", "none");
    head.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach((other) => other.textContent && other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const text = (row) => row.cells[column].textContent;
      const compare = head.classList.contains("n")
        ? (a, b) => figureOf(text(a)) - figureOf(text(b))
        : (a, b) => text(b).localeCompare(text(a));
      const rows = [...table.tBodies[0].rows].sort((a, b) => down ? compare(b, a) : compare(a, b));
      table.tBodies[0].append(...rows);
    });
  });
}
