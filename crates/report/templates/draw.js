// Draws one chart after the other, so that the page can be read meanwhile. The root element says how many are drawn, for tests.
(async () => {
  const root = document.documentElement;
  const charts = [...document.querySelectorAll("figure.chart")];
  const draw = (chart) => {
    const specification = JSON.parse(chart.querySelector("script").textContent);
    const dataflow = vega.parse(vegaLite.compile(specification).spec, null, { ast: true });
    const view = new vega.View(dataflow, {
      expr: vegaInterpreter.expressionInterpreter,
      renderer: "svg",
      container: chart.querySelector(".drawing"),
      hover: false,
    });
    return view.runAsync();
  };
  // Paper has nothing that can be opened.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => (part.open = true)));
  let drawn = 0;
  const began = performance.now();
  for (const chart of charts) {
    await draw(chart);
    root.dataset.drawn = ++drawn;
    await new Promise((resolve) => setTimeout(resolve));
  }
  root.dataset.milliseconds = Math.round(performance.now() - began);
  root.dataset.all = "drawn";
})();
