// Loaded before an agent that runs on Node: its clock begins at AGENT_CLOCK_MS, and goes at a quarter of the real speed.
const shown = Number(process.env.AGENT_CLOCK_MS);
if (shown) {
  const Real = globalThis.Date;
  const began = Real.now();
  const now = () => Math.round(shown + (Real.now() - began) / 4);
  globalThis.Date = class Date extends Real {
    constructor(...given) {
      super(...(given.length ? given : [now()]));
    }
    static now() {
      return now();
    }
  };
}
