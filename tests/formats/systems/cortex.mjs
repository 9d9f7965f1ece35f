// cortex' storage adapter after its description: append one JSON line a message, load the last N.
import { appendFile, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";

export function createJsonlAdapter(baseDir, warn = console.warn) {
  const fileOf = (agent) => join(baseDir, "transcripts", agent, "transcript.jsonl");
  return {
    async appendMessage(agent, message) {
      await mkdir(join(baseDir, "transcripts", agent), { recursive: true });
      await appendFile(fileOf(agent), JSON.stringify(message) + "\n", "utf8");
    },
    async loadHistory(agent, limit) {
      let text;
      try {
        text = await readFile(fileOf(agent), "utf8");
      } catch (error) {
        if (error.code === "ENOENT") return [];
        throw error;
      }
      const found = [];
      text.split("\n").forEach((line, index) => {
        if (line.trim() === "") return;
        try {
          found.push(JSON.parse(line));
        } catch {
          warn(`${fileOf(agent)}:${index + 1}: skipped a line that is no JSON`);
        }
      });
      return limit === undefined ? found : found.slice(-limit);
    },
  };
}

// Command line: BASE and a JSON list of calls [[name, ...arguments], ...]; prints the answers and the warnings.
if (process.argv[1].endsWith("cortex.mjs")) {
  const warnings = [];
  const adapter = createJsonlAdapter(process.argv[2], (text) => warnings.push(text));
  const answers = [];
  for (const [name, ...args] of JSON.parse(await readFile(process.argv[3], "utf8"))) {
    answers.push((await adapter[name](...args)) ?? null);
  }
  console.log(JSON.stringify({ answers, warnings }));
}
