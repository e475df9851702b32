// What check-layers and check-style share: listing source files, and reading C without comments and strings.
'use strict';
const fs = require('fs');
const os = require('os');
const path = require('path');

const SKIPPED = new Set(['node_modules', 'build', '.git']);

// All files below root, as paths relative to it with '/', sorted. Folders named build-* are build folders, too.
function listFiles(root, below = '') {
    const found = [];
    for (const entry of fs.readdirSync(path.join(root, below), { withFileTypes: true })) {
        const name = below === '' ? entry.name : `${below}/${entry.name}`;
        if (entry.isDirectory() && !SKIPPED.has(entry.name) && !entry.name.startsWith('build-')) {
            found.push(...listFiles(root, name));
        } else if (entry.isFile()) {
            found.push(name);
        }
    }
    return found.sort();
}

// The same text with comments and the insides of strings replaced by blanks; line numbers stay.
function stripCode(text, keepStrings = false) {
    const pattern = /\/\*[\s\S]*?\*\/|\/\/[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/g;
    return text.replace(pattern, (piece) => {
        const isString = piece[0] === '"' || piece[0] === "'";
        if (isString && keepStrings) {
            return piece;
        }
        const blank = piece.replace(/[^\n]/g, ' ');
        return isString && blank.length >= 2 ? piece[0] + blank.slice(2) + piece[0] : blank;
    });
}

// Make a folder with these files ({name: text}), give it to `work`, and remove it.
function withPlantedTree(files, work) {
    const root = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-check-'));
    try {
        for (const [name, text] of Object.entries(files)) {
            fs.mkdirSync(path.join(root, path.dirname(name)), { recursive: true });
            fs.writeFileSync(path.join(root, name), text);
        }
        return work(root);
    } finally {
        fs.rmSync(root, { recursive: true, force: true });
    }
}

// Run each planted case through `check` (root -> list of problems): a case without `expect` must be clean, another
// must give exactly one problem that contains `expect`. Gives the number of cases that came out otherwise.
function selfTest(cases, check) {
    let wrong = 0;
    for (const { name, files, expect } of cases) {
        const problems = withPlantedTree(files, check);
        const good = expect === undefined ? problems.length === 0
            : problems.length === 1 && problems[0].includes(expect);
        if (!good) {
            wrong++;
            console.error(`self-test: ${name}: expected ${expect === undefined ? 'nothing' : `"${expect}"`}, got:`);
            console.error(problems.length === 0 ? '  (nothing)' : problems.map((p) => `  ${p}`).join('\n'));
        }
    }
    console.log(`self-test: ${cases.length - wrong} of ${cases.length} planted trees came out as expected`);
    return wrong;
}

// The command line that both have: [--self-test | --planted | ROOT].
function main(name, check, cases) {
    const argument = process.argv[2];
    if (argument === '--self-test') {
        process.exit(selfTest(cases, check) === 0 ? 0 : 1);
    }
    const report = (root) => {
        const problems = check(root);
        problems.forEach((problem) => console.error(problem));
        console.log(`${name}: ${problems.length === 0 ? 'clean' : `${problems.length} problem(s)`}`);
        return problems.length === 0 ? 0 : 1;
    };
    if (argument === '--planted') {
        // Fails on purpose: proves that a finding reaches the exit code.
        process.exit(withPlantedTree(cases.find((one) => one.expect !== undefined).files, report));
    }
    process.exit(report(argument === undefined ? path.join(__dirname, '..') : argument));
}

module.exports = { fs, path, listFiles, stripCode, main };
