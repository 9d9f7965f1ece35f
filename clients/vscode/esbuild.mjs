// Bundles the extension into dist/extension.js; with --tests also the tests into out/.
import { readdirSync } from 'node:fs';
import { build } from 'esbuild';

const common = {
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    external: ['vscode', 'mocha'],
    // The ES modules of the language client bundle cleanly; its UMD builds do not.
    mainFields: ['module', 'main'],
    logLevel: 'warning',
};

await build({
    ...common,
    entryPoints: ['src/extension.ts'],
    outfile: 'dist/extension.js',
    minify: process.argv.includes('--production'),
    sourcemap: process.argv.includes('--production') ? false : 'linked',
});

if (process.argv.includes('--tests')) {
    const entries = (folder) => readdirSync(folder).filter((name) => name.endsWith('.ts')).map((name) => `${folder}/${name}`);
    await build({ ...common, entryPoints: entries('test/unit'), outdir: 'out/unit', sourcemap: 'inline' });
    await build({ ...common, entryPoints: ['test/wire/wire.ts'], outfile: 'out/wire/wire.js', sourcemap: 'inline' });
    await build({ ...common, entryPoints: ['test/shown/shown.ts'], outfile: 'out/shown/shown.js', sourcemap: 'inline' });
    await build({ ...common, entryPoints: ['test/host/index.ts'], outfile: 'out/host/index.js', sourcemap: 'inline' });
}
