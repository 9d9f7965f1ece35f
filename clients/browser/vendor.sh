#!/bin/sh
# Fetches the packages that package.json names and copies what the page uses of them into page/vendor.
set -eu
cd "$(dirname "$0")"
npm install --no-package-lock --no-audit --no-fund --ignore-scripts --silent
to=page/vendor
cp node_modules/markdown-it/dist/browser/markdown-it.esm.min.mjs $to/markdown-it.js
cp node_modules/dompurify/dist/purify.es.mjs $to/purify.js
cp node_modules/@highlightjs/cdn-assets/es/highlight.min.js $to/highlight.js
cp node_modules/dompurify/LICENSE $to/purify.LICENSE.txt
cp node_modules/@highlightjs/cdn-assets/LICENSE $to/highlight.LICENSE.txt
for package in markdown-it linkify-it mdurl uc.micro entities punycode.js; do
    printf '== %s ==\n\n' "$package"
    cat node_modules/$package/[Ll][Ii][Cc][Ee][Nn][Ss][Ee]*
    echo
done >$to/markdown-it.LICENSE.txt
