"use strict";
(() => {
  const specs = JSON.parse(document.getElementById("specs").textContent);
  const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
  const drawn = new Set();

  // The page's colours, so that plots follow light, dark and print.
  function theme() {
    const css = getComputedStyle(document.documentElement);
    const colour = (name) => css.getPropertyValue(name).trim();
    return { text: colour("--text"), soft: colour("--soft"), line: colour("--line"), grid: colour("--grid"), tint: colour("--tint") };
  }

  function layout(own) {
    const t = theme();
    const axis = (a) => ({
      gridcolor: t.grid, linecolor: t.line, zerolinecolor: t.line, ticks: "outside", tickcolor: t.line, ticklen: 4,
      automargin: true, ...a, title: { font: { size: 12, color: t.soft }, standoff: 8, ...(a.title || {}) },
      minor: a.minor ? { ...a.minor, showgrid: false, ticks: "outside", ticklen: 2, tickcolor: t.line } : undefined,
    });
    return {
      ...own, xaxis: axis(own.xaxis), yaxis: axis(own.yaxis), showlegend: false, hovermode: "closest",
      margin: { l: 56, r: 12, t: 26, b: 44 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: t.text },
      hoverlabel: { bgcolor: t.tint, bordercolor: t.line, font: { color: t.text } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: t.line, activecolor: t.soft },
      dragmode: "zoom", bargap: 0.25,
    };
  }

  function data(traces) {
    const text = theme().text;
    return traces.map((trace) =>
      trace.meta === "text-font" ? { ...trace, textfont: { color: text } } :
      trace.meta === "text-colour" ? { ...trace, marker: { ...trace.marker, color: text, line: { ...trace.marker.line, color: text } } } : trace);
  }

  const hidden = (section) => new Set(
    [...section.querySelectorAll('.legend [aria-pressed="false"]')].map((b) => b.dataset.scheduler));

  async function draw(id) {
    const div = document.getElementById(id);
    const off = hidden(div.closest("section"));
    const traces = data(specs[id].data).map((trace) => ({ ...trace, visible: !off.has(trace.name) }));
    div.closest("figure").hidden = traces.every((trace) => !trace.visible);
    await Plotly.react(div, traces, layout(specs[id].layout), config);
    scale(div);
    // Also after it was drawn again for another width of the window.
    if (!drawn.has(id)) div.on("plotly_afterplot", () => scale(div));
    drawn.add(id);
  }

  // With a view box and its ratio the drawing scales to the width of paper.
  function scale(div) {
    for (const svg of div.querySelectorAll(".main-svg")) {
      svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
    }
    if (!matchMedia("print").matches) div.style.setProperty("--ratio", div.clientWidth / div.clientHeight);
  }

  const inFold = (id) => document.getElementById(id).closest("details:not([open])") !== null;
  // One after the other, so that the page can be read meanwhile; what is in a closed fold when that opens.
  async function drawMissing() {
    for (const id of Object.keys(specs)) {
      if (drawn.has(id) || inFold(id)) continue;
      await draw(id);
      await new Promise((next) => setTimeout(next));
    }
    document.documentElement.dataset.plots = drawn.size;
  }
  const redraw = () => Promise.all([...drawn].map(draw));

  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
      for (const plot of button.closest("section").querySelectorAll(".plot")) draw(plot.id);
    });
  }
  for (const fold of document.querySelectorAll("details")) fold.addEventListener("toggle", () => fold.open && drawMissing());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", redraw);

  // A value to sort by: the number in the cell, or its text. Undefined values sort last.
  function order(cell) {
    const text = cell.dataset.order ?? cell.textContent.trim();
    const number = parseFloat(text.replace(/[,+\u2265\u25b8]/g, ""));
    return Number.isNaN(number) ? (cell.dataset.order === undefined ? text : "\uffff") : number;
  }
  function compare(a, b) {
    if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
    return typeof a === "number" ? -1 : 1;
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    for (const head of table.tHead.rows[0].cells) {
      head.tabIndex = 0;
      const sort = () => {
        const ascending = head.getAttribute("aria-sort") !== "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => (ascending ? 1 : -1) * compare(order(a.cells[head.cellIndex]), order(b.cells[head.cellIndex])));
        table.tBodies[0].append(...rows);
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); } });
    }
  }

  document.getElementById("download").addEventListener("click", (event) => {
    const text = document.getElementById("results").textContent;
    event.currentTarget.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  });

  drawMissing();
})();
