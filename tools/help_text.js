// help_text - what a program's --help says, as data: the source of its completions, man pages and reference.
//
// The options' tables in src/cli print --help; this reads it back, so nothing is written twice. A help text is
//
//   usage: cairn serve -m FILE [options]
//   about ...
//   heading
//     -m, --model FILE            what it does
//                                 on more lines
//   examples:
'use strict';
const { execFileSync } = require('node:child_process');

const OPTION = /^ {2}(?:-(\w), | {0,4})--([a-z][a-z0-9-]*)(?: (\S+))?(?: {2,}(.*))?$/;

// The commands in `cairn --help`, as [{ name, about }].
function readCommands(text) {
    const part = /\ncommands:\n((?: {2}\S.*\n)+)/.exec(text);
    if (!part) {
        throw new Error('--help names no commands');
    }
    return part[1].trimEnd().split('\n').map((line) => {
        const [, name, about] = /^ {2}(\S+) +(.*)$/.exec(line);
        return { name, about };
    });
}

// One command's help: { usage, about, groups: [{ heading, options: [{ letter, name, arg, help }] }], tail }.
function readHelp(text) {
    const help = { usage: '', about: [], groups: [], tail: [] };
    let option = null;
    let inTail = false;
    for (const line of text.split('\n')) {
        const found = inTail ? null : OPTION.exec(line);
        const usage = /^usage: (.*)$/.exec(line);
        if (usage) {
            help.usage = usage[1];
        } else if (found) {
            if (help.groups.length === 0) {
                help.groups.push({ heading: '', options: [] });
            }
            option = { letter: found[1] ?? '', name: found[2], arg: found[3] ?? '', help: found[4] ?? '' };
            help.groups.at(-1).options.push(option);
        } else if (option && /^ {10}/.test(line)) {
            option.help = `${option.help} ${line.trim()}`.trim();
        } else if (help.groups.length === 0 && /^[a-z][a-z ]*$/.test(line) && help.about.length > 0) {
            help.groups.push({ heading: line, options: [] });
        } else if (help.groups.length === 0) {
            help.about.push(line);
        } else if (!inTail && help.groups.length > 0 && /^[a-z][a-z ]*$/.test(line)) {
            help.groups.push({ heading: line, options: [] });
            option = null;
        } else if (!/^Every option can|^capitals, with/.test(line) && (inTail || line !== '')) {
            inTail = true;
            help.tail.push(line);
        }
    }
    help.about = help.about.join('\n').trim();
    help.tail = help.tail.join('\n').trim();
    return help;
}

// The words that may follow a command: "store ls|show DIR" gives ls, show; "model synth" gives synth.
function subcommandsOf(name, usage) {
    const word = new RegExp(`^cairn ${name} ([a-z|]+)( |$)`).exec(usage);
    return word ? word[1].split('|') : [];
}

// Every command of the program: [{ name, about, subcommands, help }]. Where a subcommand has options of its own
// (`cairn model synth`), they are the command's.
function readProgram(program) {
    const run = (...args) => execFileSync(program, args, { encoding: 'utf8' });
    const top = run('--help');
    const commands = readCommands(top).map(({ name, about }) => {
        let help = name === 'version' ? readHelp('usage: cairn version\n') : readHelp(run(name, '--help'));
        const subcommands = subcommandsOf(name, help.usage);
        if (help.groups.length === 0 && subcommands.length === 1) {
            help = readHelp(run(name, subcommands[0], '--help'));
        }
        return { name, about, subcommands, help };
    });
    return { version: run('--version').split('\n')[0].replace(/^cairn /, ''), commands };
}

const optionsOf = (command) => command.help.groups.flatMap((group) => group.options);

module.exports = { readProgram, readHelp, readCommands, subcommandsOf, optionsOf };
