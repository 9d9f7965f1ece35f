// Theia's storage service after its description, over a file in place of the browser's storage: freeze, thaw, forget.
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";

const PERSISTED = ["messages", "context", "prData", "plan", "pendingAction", "lastError"];

export class StorageService {
  constructor(file) {
    this.file = file;
  }
  saveState(state) {
    const kept = Object.fromEntries(PERSISTED.map((key) => [key, state[key] ?? null]));
    writeFileSync(this.file, JSON.stringify({ ...kept, savedAt: state.now ?? new Date().toISOString() }));
  }
  loadState() {
    return existsSync(this.file) ? JSON.parse(readFileSync(this.file, "utf8")) : null;
  }
  clearState() {
    rmSync(this.file, { force: true });
  }
  hasSavedState() {
    return existsSync(this.file);
  }
}

// Command line: FILE and a JSON list of calls; prints the answers.
if (process.argv[1].endsWith("theia.mjs")) {
  const service = new StorageService(process.argv[2]);
  const answers = [];
  for (const [name, ...args] of JSON.parse(await readFile(process.argv[3], "utf8"))) {
    answers.push(service[name](...args) ?? null);
  }
  console.log(JSON.stringify(answers));
}
