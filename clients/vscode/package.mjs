// Packs the extension: `npm run package` leaves sessiond.vsix, the same bytes each time.
//
// A .vsix is a zip with the extension's files below `extension/`, a manifest for the gallery, and the content types of its files.
// `vsce` would do the same, with two hundred packages for publishing that nothing here uses.

import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { zipSync } from 'fflate';

const TYPES = { '.json': 'application/json', '.vsixmanifest': 'text/xml', '.md': 'text/markdown', '.txt': 'text/plain',
    '.js': 'application/javascript', '.png': 'image/png', '.svg': 'image/svg+xml' };
const RENAMED = { LICENSE: 'LICENSE.txt' };
const FIRST_DAY = new Date(1980, 0, 1); // the earliest time that a zip file can express
const UNIX = 3;
const REGULAR_0644 = (0o100644 << 16) >>> 0;

const about = JSON.parse(readFileSync('package.json', 'utf8'));
const paths = ['package.json', 'README.md', 'CHANGELOG.md', 'LICENSE', ...below('dist'), ...below('media')];
const files = { '[Content_Types].xml': text(contentTypes()), 'extension.vsixmanifest': text(manifest()) };
for (const path of paths) files[`extension/${RENAMED[path] ?? path}`] = readFileSync(path);
const options = { level: 9, mtime: FIRST_DAY, os: UNIX, attrs: REGULAR_0644 };
const entries = Object.keys(files).sort().map((name) => [name, [files[name], options]]);
writeFileSync(process.argv[2] ?? 'sessiond.vsix', zipSync(Object.fromEntries(entries)));

function below(folder) {
    return readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile() && !entry.name.endsWith('.map'))
        .map((entry) => join(entry.parentPath, entry.name));
}

function contentTypes() {
    const found = new Set(['.vsixmanifest', ...paths.map((path) => extname(RENAMED[path] ?? path))]);
    const unknown = [...found].filter((ending) => !(ending in TYPES));
    if (unknown.length) throw new Error(`no content type for ${unknown.join(", ")}: add it to package.mjs`);
    const defaults = [...found].sort().map((ending) => `<Default Extension="${ending}" ContentType="${TYPES[ending]}"/>`);
    return `<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">${defaults.join("")}</Types>
`;
}

function manifest() {
    const properties = { Engine: about.engines.vscode, ExtensionDependencies: '', ExtensionPack: '',
        ExtensionKind: about.extensionKind.join(','), LocalizedLanguages: '', EnabledApiProposals: '', ExecutesCode: 'true' };
    const assets = { 'Microsoft.VisualStudio.Code.Manifest': 'package.json', 'Microsoft.VisualStudio.Services.Content.Details': 'README.md',
        'Microsoft.VisualStudio.Services.Content.Changelog': 'CHANGELOG.md',
        'Microsoft.VisualStudio.Services.Content.License': 'LICENSE.txt', 'Microsoft.VisualStudio.Services.Icons.Default': about.icon };
    const lines = (named, line) => Object.entries(named).map(([name, value]) => line(name, escaped(value))).join('\n      ');
    return `<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" Id="${about.name}" Version="${about.version}" Publisher="${about.publisher}"/>
    <DisplayName>${escaped(about.displayName)}</DisplayName>
    <Description xml:space="preserve">${escaped(about.description)}</Description>
    <Tags>${escaped(about.keywords.join(","))}</Tags>
    <Categories>${escaped(about.categories.join(","))}</Categories>
    <GalleryFlags>Public</GalleryFlags>
    <Properties>
      ${lines(properties, (name, value) => `<Property Id="Microsoft.VisualStudio.Code.${name}" Value="${value}"/>`)}
    </Properties>
    <License>extension/LICENSE.txt</License>
    <Icon>extension/${about.icon}</Icon>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets>
      ${lines(assets, (type, path) => `<Asset Type="${type}" Path="extension/${path}" Addressable="true"/>`)}
  </Assets>
</PackageManifest>
`;
}

function escaped(value) {
    return value.replace(/[<>&"']/g, (found) => `&#${found.charCodeAt(0)};`);
}

function text(value) {
    return new TextEncoder().encode(value);
}
