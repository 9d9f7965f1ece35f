#!/bin/sh
# Fetches the packages that package.json names and copies what the page uses of them into page/vendor.
set -eu
cd "$(dirname "$0")"
at=$(mktemp -d)
trap 'rm -r "$at"' EXIT
cp package.json "$at"
npm install --prefix "$at" --no-package-lock --no-audit --no-fund --ignore-scripts --silent
from=$at/node_modules
to=page/vendor
cp "$from/markdown-it/dist/browser/markdown-it.esm.min.mjs" $to/markdown-it.js
cp "$from/dompurify/dist/purify.es.mjs" $to/purify.js
cp "$from/@highlightjs/cdn-assets/es/highlight.min.js" $to/highlight.js
cp "$from/dompurify/LICENSE" $to/purify.LICENSE.txt
cp "$from/@highlightjs/cdn-assets/LICENSE" $to/highlight.LICENSE.txt
for package in markdown-it linkify-it mdurl uc.micro entities punycode.js; do
    printf '== %s ==\n\n' "$package"
    cat "$from/$package"/[Ll][Ii][Cc][Ee][Nn][Ss][Ee]*
    echo
done >$to/markdown-it.LICENSE.txt
