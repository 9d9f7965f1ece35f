// Prints the document that VS Code shows of each session. The file that is named has the results of `session/open`, as a list.
import { readFileSync } from 'node:fs';
import { Opened } from '../../src/core/protocol';
import { Renderer } from '../../src/core/render';
import { Transcript } from '../../src/core/transcript';

for (const opened of JSON.parse(readFileSync(process.argv[2], 'utf8')) as Opened[]) {
    const transcript = new Transcript();
    transcript.load(opened);
    const renderer = new Renderer();
    renderer.render(opened.session.sessionId, transcript);
    process.stdout.write(`${renderer.text.split('\n').slice(1).join('\n')}\f`);
}
