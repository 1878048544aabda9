// Draws a chart where there is no page and no browser: `picture(specification)` promises SVG.
//
// Vega asks a canvas how wide a text is. This one does nothing else; `widthOfText` is the program's.
globalThis.document = {
  createElement: () => ({
    getContext: () => ({
      font: "",
      measureText(text) {
        return { width: widthOfText(String(text), parseFloat(/([\d.]+)px/.exec(this.font)?.[1] ?? "11")) };
      },
    }),
  }),
};
// What Vega-Lite has to say, it says in errors too.
globalThis.console = { log() {}, warn() {}, error() {} };
// The interpreter of expressions names them, to refuse them.
globalThis.setTimeout = () => {};
globalThis.setInterval = () => {};
globalThis.structuredClone = (value) => JSON.parse(JSON.stringify(value));
globalThis.picture = (specification) => {
  const dataflow = vega.parse(vegaLite.compile(JSON.parse(specification)).spec, null, { ast: true });
  return new vega.View(dataflow, { expr: vegaInterpreter.expressionInterpreter, renderer: "none" }).toSVG();
};
