// build - makes the page of web/: one HTML file, and that as a C array.
//
//   node web/build.mjs OUT.c [OUT.html]
//
// Scripts and styles are bundled by esbuild and put into the HTML, so that the page needs nothing besides the server's data.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import esbuild from 'esbuild-wasm';

const here = dirname(fileURLToPath(import.meta.url));
const [outC, outHtml] = process.argv.slice(2);
if (!outC) {
    console.error('usage: node web/build.mjs OUT.c [OUT.html]');
    process.exit(2);
}

async function bundle(entry) {
    const result = await esbuild.build({
        entryPoints: [join(here, entry)], bundle: true, minify: true, write: false, format: 'iife',
        target: ['es2020'], legalComments: 'none', charset: 'utf8', logLevel: 'warning', outdir: here,
    });
    return result.outputFiles[0].text;
}

const style = await bundle('style.css');
const script = (await bundle('src/main.js')).replaceAll('</script', '<\\/script');
let html = readFileSync(join(here, 'index.html'), 'utf8');
html = html.replace('/* style */', () => style.trim()).replace('/* script */', () => script.trim());

const bytes = Buffer.from(html, 'utf8');
const lines = [];
for (let i = 0; i < bytes.length; i += 20) {
    lines.push([...bytes.subarray(i, i + 20)].join(','));
}
writeFileSync(outC, `/* Made by web/build.mjs. */\n#include "serve/page_bytes.h"\n\nconst unsigned char cairn_page_bytes[] = {\n${
    lines.join(',\n')}};\nconst size_t cairn_page_len_bytes = ${bytes.length};\n`);
if (outHtml) {
    writeFileSync(outHtml, html);
}
// esbuild's WebAssembly build keeps a process of its own running.
await esbuild.stop?.();
process.exit(0);
