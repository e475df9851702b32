// The documents say what the program and the headers say: reference pages are current, options that are named exist.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

const ROOT = new URL('../..', import.meta.url).pathname;
const PROGRAM = process.env.CAIRN_TEST_PROGRAM;
const require = createRequire(import.meta.url);
const { readProgram, readHelp, optionsOf } = require('../../tools/help_text.js');
const { readHeader, readParts } = require('../../tools/header_text.js');
const run = (...args) => execFileSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
const read = (file) => readFileSync(`${ROOT}/${file}`, 'utf8');
const commands = readProgram(PROGRAM).commands;
const options = new Set(commands.flatMap((command) => optionsOf(command).map((one) => `--${one.name}`)));

test('docs/reference says what the headers say (else: make reference)', () => {
    run('tools/api-docs', '--check', 'docs/reference');
});

test('docs/reference/commands.md says what --help says (else: make reference)', () => {
    const folder = mkdtempSync(`${process.env.TMPDIR ?? '/tmp'}/cairn-docs-`);
    try {
        run('tools/command-docs', PROGRAM, '--reference', `${folder}/commands.md`);
        assert.equal(read('docs/reference/commands.md'), readFileSync(`${folder}/commands.md`, 'utf8'));
    } finally {
        rmSync(folder, { recursive: true });
    }
});

test('docs/comparison.md and README.md\'s table say what docs/results says (else: make reference)', () => {
    run('tools/comparison', '--check', 'docs/comparison.md', 'README.md');
});

// Options of other programs that the documents mention.
const FOREIGN = /^--(vocab|checkpoint-min-step|ctx-checkpoints|version|clean|quick|preset|test-dir|build|install|prefix|component|output-on-failure|cflags|libs|static|purge|omit|ignore-scripts|variant|user|now|system|warnings|check|reference|man|real-world|self-test|planted|update)$/;

test('every option that the documents name is one of some command', () => {
    const files = ['README.md', 'docs/man/cairn.1', ...readdirSync(`${ROOT}/docs`).filter((name) => name.endsWith('.md') && name !== 'comparison.md').map((name) => `docs/${name}`)];
    for (const file of files) {
        const text = read(file).replace(/\\-/g, '-');
        for (const [, option] of text.matchAll(/(?<![\w-])(--[a-z][a-z0-9-]+)/g)) {
            assert.ok(options.has(option) || FOREIGN.test(option), `${file}: ${option}`);
        }
    }
});

test('the README\'s table names options of serve with their letters and defaults', () => {
    const serve = optionsOf(commands.find((command) => command.name === 'serve'));
    const table = /\n\| option \| default \| \|\n([^]*?)\n\n/.exec(read('README.md'))[1];
    let named = 0;
    for (const row of table.split('\n').slice(1)) {
        const [, names, written] = row.replaceAll('\\|', ' ').split('|');
        const letters = [...row.matchAll(/`-([a-z])`/g)].map((match) => match[1]);
        const defaults = written.split(',').map((one) => one.trim());
        const all = [...names.matchAll(/`--([a-z-]+)/g)];
        for (const [index, [, name]] of all.entries()) {
            const option = serve.find((one) => one.name === name);
            assert.ok(option, `--${name}`);
            assert.ok(option.letter === '' || letters.includes(option.letter), `--${name} is also -${option.letter}`);
            // A default that --help gives as one plain word stands in the table, too; 0 and -1 are explained in words.
            const plain = /\(([\w.%]+)\)$/.exec(option.help)?.[1];
            assert.ok(!plain || /^(0|-1)$/.test(plain) || defaults.length !== all.length || defaults[index] === plain, `--${name}: ${plain}`);
            named++;
        }
    }
    assert.ok(named >= 12);
});

// A name of docs/ARCHITECTURE.md's tables stands for files of its folders whatever their ending; a star for any characters.
const stemsOf = (folder) => [...new Set(readdirSync(`${ROOT}/${folder}`).filter((name) => !/^CMakeLists|\.supp$/.test(name) && statSync(`${ROOT}/${folder}/${name}`).isFile())
    .map((name) => name.replace(/\.\w+$/, '')))];

test('docs/ARCHITECTURE.md names every source file, and none that is not there', () => {
    const text = read('docs/ARCHITECTURE.md');
    const [, files] = /\n## The files\n([^]*?)\n## /.exec(text);
    const sections = [...files.matchAll(/\n### ([\w/, ]+)\n([^]*?)(?=\n### |$)/g)];
    assert.ok(sections.length >= 9);
    for (const [, title, table] of sections) {
        const stems = title.split(', ').flatMap(stemsOf);
        const named = table.split('\n').filter((line) => line.startsWith('| `')).flatMap((line) => [...line.split('|')[1].matchAll(/`([^`]+)`/g)].map((match) => match[1]));
        const patterns = named.map((name) => new RegExp(`^${name.replaceAll('*', '.*')}$`));
        named.forEach((name, index) => assert.ok(stems.some((stem) => patterns[index].test(stem)), `${title}: there is no ${name}`));
        stems.forEach((stem) => assert.ok(title === 'tools' || patterns.some((pattern) => pattern.test(stem)), `${title}: ${stem} is in no table of docs/ARCHITECTURE.md`));
    }
    for (const [, place] of text.matchAll(/`([a-z]+\/[\w./-]+)`/g)) {
        assert.ok(/NAME|FAMILY/.test(place) || place.startsWith('build/') || existsSync(`${ROOT}/${place}`), `there is no ${place}`);
    }
});

test('the documents and tests that comments in the code name are there', () => {
    for (const folder of ['include/cairn', 'sim', 'bench', ...readdirSync(`${ROOT}/src`).map((name) => `src/${name}`)]) {
        for (const file of readdirSync(`${ROOT}/${folder}`).filter((name) => /\.(c|h|cpp)$/.test(name))) {
            for (const [, place] of read(`${folder}/${file}`).matchAll(/\b((?:docs|tests|examples)\/[\w./-]+\.(?:md|c|mjs))\b/g)) {
                assert.ok(existsSync(`${ROOT}/${place}`), `${folder}/${file} names ${place}`);
            }
        }
    }
});

test('links between documents lead to files that are there', () => {
    const pages = ['README.md', 'traces/README.md', ...readdirSync(`${ROOT}/docs`, { recursive: true }).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)];
    for (const page of pages) {
        for (const [, link] of read(page).matchAll(/\]\(([^)\s#]+)[^)]*\)/g)) {
            assert.ok(/^https?:/.test(link) || existsSync(join(ROOT, dirname(page), link)), `${page} links to ${link}`);
        }
    }
});

// The anchor that a heading gets on the usual hosts.
const anchorOf = (heading) => heading.toLowerCase().replace(/[^\w\- ]/g, '').trim().replaceAll(' ', '-');
const anchorsOf = (page) => read(page).split('\n').filter((line) => /^#+ /.test(line)).map((line) => anchorOf(line.replace(/^#+ /, '')));

test('links to a heading lead to one that is there', () => {
    let followed = 0;
    for (const page of ['README.md', ...readdirSync(`${ROOT}/docs`, { recursive: true }).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)]) {
        for (const [, file, anchor] of read(page).matchAll(/\]\((?!https?:)([^)\s#]*)#([^)\s]+)\)/g)) {
            assert.ok(anchorsOf(file ? join(dirname(page), file) : page).includes(anchor), `${page} links to ${file}#${anchor}`);
            followed++;
        }
    }
    assert.ok(followed >= 5);
});

test('docs/api.md names every metric, and no document or dashboard one that is not there', () => {
    const metrics = [...read('src/serve/metrics.c').matchAll(/\b(?:simple|histogram|head)\(&?s, "([a-z_]+)"/g)].map((match) => match[1]);
    assert.ok(metrics.length >= 60);
    const section = /\n## Metrics\n([^]*)/.exec(read('docs/api.md'))[1];
    for (const name of metrics) {
        const [, tier, rest] = /^(disk|shared)_(.+)_total$/.exec(name) ?? [];
        const short = tier && section.split('\n').some((row) => row.includes(`\`cairn_${tier}_..._total\``) && row.includes(`\`${rest}\``));
        assert.ok(short || new RegExp(`\\bcairn_${name}\\b`).test(section), `docs/api.md lacks cairn_${name}`);
    }
    for (const [file, text] of [['docs/api.md', section], ...['docs/guide-operators.md', 'docs/grafana-dashboard.json'].map((file) => [file, read(file)])]) {
        for (const [, name] of text.matchAll(/\bcairn_([a-z_]*[a-z])\b(?!_\.)/g)) {
            assert.ok(metrics.includes(name.replace(/_(bucket|sum|count)$/, '')), `${file}: there is no cairn_${name}`);
        }
    }
});

test('docs/guide-clients.md names the versions of agents that make test-agents runs', () => {
    const { dependencies } = JSON.parse(read('tests/agents/package.json'));
    const text = read('docs/guide-clients.md');
    for (const [name, version] of Object.entries(dependencies).filter(([name]) => !name.startsWith('node-'))) {
        assert.ok(text.includes(` ${version}`), `${name} ${version}`);
    }
});

test('THIRD_PARTY_NOTICES.md has every npm package with the version that is installed', () => {
    const { dependencies, devDependencies } = JSON.parse(read('package.json'));
    const rows = read('THIRD_PARTY_NOTICES.md').split('\n').filter((line) => line.startsWith('| '));
    for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies })) {
        assert.ok(rows.some((row) => row.split('|')[1].toLowerCase().includes(name.toLowerCase()) && row.split('|')[1].includes(version)), `${name} ${version}`);
    }
});

test('the code in docs/embedding.md stands in examples/embed.c', () => {
    const blocks = [...read('docs/embedding.md').matchAll(/```c\n([^]*?)```/g)];
    assert.ok(blocks.length >= 3);
    for (const [, block] of blocks) {
        assert.ok(read('examples/embed.c').includes(block.trimEnd()), block);
    }
});

test('a help text and a header are read back whole', () => {
    const help = readHelp('usage: cairn x [options]\n\nSays it.\n\ncache\n  -a, --all               everything\n      --long-name-of-it FILE\n                          in a file,\n                          on two lines\n\nlog\n      --how fast|slow     how\n\n  -h, --help              this text\n\nexample:\n  cairn x\n');
    assert.equal(help.usage, 'cairn x [options]');
    assert.deepEqual(help.groups.map((group) => [group.heading, group.options.map((one) => one.name)]), [['cache', ['all', 'long-name-of-it']], ['log', ['how', 'help']]]);
    assert.equal(help.groups[0].options[1].help, 'in a file, on two lines');
    assert.equal(help.tail, 'example:\n  cairn x');
    const header = readHeader('/*\n * x - what.\n *\n *   a picture\n *\n * Units    tokens,\n *          always\n */\n#ifndef CAIRN_X_H\n#define CAIRN_X_H\n\n/*\n * Do it.\n *\n *   a  [in]   how\n *   b  [out]  what\n *             came\n *\n * Errors  none\n */\nint cairn_do(int a, int *b);\n/* Both. */\nint cairn_x(void);\nint cairn_y(void);\n\ntypedef struct cairn_z {\n    int a;\n\n    int b;\n} cairn_z;\n\n#endif\n');
    assert.deepEqual(header.items.map((item) => item.names), [['cairn_do'], ['cairn_x', 'cairn_y'], ['cairn_z']]);
    assert.deepEqual(readParts(header.purpose), [{ text: 'x - what.' }, { code: '  a picture' }, { rows: [['Units', 'tokens, always']] }]);
    assert.deepEqual(readParts(header.items[0].comment)[1], { rows: [['a', '[in]   how'], ['b', '[out]  what came']] });
});
