"use strict";
(() => {
  const specs = JSON.parse(document.getElementById("specs").textContent);
  const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] };

  // The page's colours, so that plots follow light, dark and print.
  function theme() {
    const css = getComputedStyle(document.documentElement);
    const colour = (name) => css.getPropertyValue(name).trim();
    return { text: colour("--text"), soft: colour("--soft"), line: colour("--line"), grid: colour("--grid"), tint: colour("--tint") };
  }

  function layout(own, wide) {
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
      trace.meta === "text-colour" ? { ...trace, marker: { ...trace.marker, color: text, line: { ...trace.marker.line, color: text } } } : trace);
  }

  const hidden = (section) => new Set(
    [...section.querySelectorAll('.legend [aria-pressed="false"]')].map((b) => b.dataset.scheduler));

  function draw(id) {
    const div = document.getElementById(id);
    const off = hidden(div.closest("section"));
    const traces = data(specs[id].data).map((trace) => ({ ...trace, visible: !off.has(trace.name) }));
    return Plotly.react(div, traces, layout(specs[id].layout), config);
  }
  const drawAll = () => Promise.all(Object.keys(specs).map(draw));

  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
      for (const plot of button.closest("section").querySelectorAll(".plot")) draw(plot.id);
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  matchMedia("print").addEventListener("change", drawAll);

  document.getElementById("download").addEventListener("click", (event) => {
    const text = document.getElementById("results").textContent;
    event.currentTarget.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  });

  drawAll().then(() => { document.documentElement.dataset.plots = Object.keys(specs).length; });
})();
