// build - makes the page of web/: one HTML file, and that as a C array.
//
//   node web/build.mjs FOLDER        writes page_bytes.c, page.html and page_licenses.txt there
//
// Scripts and styles are bundled by esbuild and put into the HTML, so that the page needs nothing besides the server's data.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import esbuild from 'esbuild-wasm';

const here = dirname(fileURLToPath(import.meta.url));
const PACKAGES = ['preact', 'htm', 'uplot', 'd3-hierarchy'];
const folder = process.argv[2];
if (!folder) {
    console.error('usage: node web/build.mjs FOLDER');
    process.exit(2);
}

// Each package's licence text, and one line about it for the page itself.
const licenses = PACKAGES.map((name) => {
    const place = join(here, '..', 'node_modules', name);
    const { version, license } = JSON.parse(readFileSync(join(place, 'package.json'), 'utf8'));
    const text = readFileSync(join(place, 'LICENSE'), 'utf8').trim();
    const [owner] = /Copyright (\(c\) )?\d{4}.*/i.exec(text) ?? [''];
    return { line: `${name} ${version} (${license}${owner ? `; ${owner.replaceAll('--', '-')}` : ''})`, text: `${name} ${version}\n\n${text}\n` };
});

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
html = html.replace('<head>', () => `<head>\n<!-- This page contains: ${licenses.map((one) => one.line).join('; ')}. The licences' texts come with cairn. -->`);
html = html.replace('/* style */', () => style.trim()).replace('/* script */', () => script.trim());

const bytes = Buffer.from(html, 'utf8');
const lines = [];
for (let i = 0; i < bytes.length; i += 20) {
    lines.push([...bytes.subarray(i, i + 20)].join(','));
}
writeFileSync(join(folder, 'page_bytes.c'), `/* Made by web/build.mjs. */\n#include "serve/page_bytes.h"\n\nconst unsigned char cairn_page_bytes[] = {\n${
    lines.join(',\n')}};\nconst size_t cairn_page_len_bytes = ${bytes.length};\n`);
writeFileSync(join(folder, 'page.html'), html);
writeFileSync(join(folder, 'page_licenses.txt'), licenses.map((one) => one.text).join(`\n${'-'.repeat(80)}\n\n`));
// esbuild's WebAssembly build keeps a process of its own running.
await esbuild.stop?.();
process.exit(0);
