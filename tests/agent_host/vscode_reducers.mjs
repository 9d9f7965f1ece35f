// What VS Code itself makes of actions: {"state", "actions"} lines come in, states go out.
//   node vscode_reducers.mjs WORKBENCH_JS
// Its reducer of chats is a function in a bundle of one line. It is found by an action that it names, and runs with the
// definitions before it, from the table of actions on.
import {readFileSync} from "node:fs"
import {createInterface} from "node:readline"
import {runInThisContext} from "node:vm"

const bundle = readFileSync(process.argv[2], "utf8")

function found(text) {
  const at = bundle.indexOf(text)
  if (at < 0) throw new Error(`${text} is not in this build of VS Code: how its reducers are found has to change`)
  return at
}

function closing(from) {
  let depth = 0
  for (let at = bundle.indexOf("{", from); ; at++) {
    if (bundle[at] === "{") depth++
    else if (bundle[at] === "}" && --depth === 0) return at + 1
  }
}

const table = bundle.lastIndexOf("var ", found('"root/agentsChanged":!1'))
const reducer = bundle.lastIndexOf("function ", found('case"chat/turnStarted":{'))
const name = bundle.slice(reducer + "function ".length, bundle.indexOf("(", reducer))
const reduce = runInThisContext(`(() => { ${bundle.slice(table, closing(reducer))}; return ${name} })()`)

for await (const line of createInterface({input: process.stdin})) {
  const {state, actions} = JSON.parse(line)
  console.log(JSON.stringify(actions.reduce((now, action) => reduce(now, action, () => {}), state)))
}
