#!/usr/bin/env node
// bench_scenarios - the requests that tools/bench-peers sends, as lists of JSON: generated single-user traffic, and recorded
// traffic of real clients, cut down to a context. Same seed, same requests.
//
//   node tools/bench_scenarios.js DIR [--seed N] [--scale X] [--tokens-per-word X]     writes DIR/NAME.json
//
// A scenario is { name, about, recorded, requests: [{ path, kind, body }] }. Histories hold written answers, as recorded
// traffic does; what a server itself generated never comes back. So every server gets the same prompts.
'use strict';
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { ROOT, randomOf } = require('./bench_lib.js');

const WORDS = ('the of and to in is that it was for on are as with they at be this have from or one had by word but not what all were we ' +
    'when your can said there use an each which she do how their if will up other about out many then them these so some her would ' +
    'make like him into time has look two more write go see number no way could people my than first water been call who oil its now ' +
    'find long down day did get come made may part').split(' ');
const TOOLS = [{ type: 'function', function: { name: 'run', description: 'Run a command and give its output.',
    parameters: { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] } } }];

// Makes texts of about so many tokens; every text is new.
function writer(seed, tokensPerWord, scale) {
    let next = seed * 1000;
    const say = (tokens, seedOf) => {
        const random = randomOf(seedOf);
        const count = Math.max(1, Math.round(tokens * scale / tokensPerWord));
        return Array.from({ length: count }, () => WORDS[Math.floor(random() * WORDS.length)]).join(' ');
    };
    const text = (tokens) => say(tokens, ++next);
    const random = randomOf(seed * 77 + 5);
    const between = (low, high) => Math.round(low + random() * (high - low));
    return { text, random, between };
}

const system = (content) => ({ role: 'system', content });
const user = (content) => ({ role: 'user', content });
const assistant = (content) => ({ role: 'assistant', content });
const result = (content, id) => ({ role: 'tool', tool_call_id: id, content });
const call = (content, id, command, reasoning) => ({ role: 'assistant', content, ...(reasoning ? { reasoning_content: reasoning } : {}),
    tool_calls: [{ id, type: 'function', function: { name: 'run', arguments: JSON.stringify({ command }) } }] });

function chat(kind, messages, extra = {}) {
    return { path: '/v1/chat/completions', kind, body: { messages: messages.map((one) => ({ ...one })), chat_template_kwargs: { enable_thinking: false }, ...extra } };
}

// Half of a text replaced from word `at` (a part of 1) on.
function edited(text, at, other) {
    const words = text.split(' ');
    return [...words.slice(0, Math.floor(words.length * at)), ...other.split(' ')].join(' ');
}

const MAKERS = {
    'three-requests': ['three turns of 1,900; then the third edited, then the second', (w) => {
        const talk = [system(w.text(200)), user(w.text(1900)), assistant(w.text(60)), user(w.text(1900)), assistant(w.text(60)), user(w.text(1900))];
        const third = [...talk.slice(0, 5), user(w.text(1900))];
        const second = [...talk.slice(0, 3), user(w.text(1900)), ...talk.slice(4)];
        return [chat('cold', talk), chat('edit', third), chat('edit', second)];
    }],
    reviewer: ['four turns of 1,000; then the last one with other first words', (w) => {
        const talk = [system('Be brief.')];
        for (let i = 0; i < 4; i++) {
            talk.push(user(w.text(1000)), ...(i < 3 ? [assistant(w.text(12))] : []));
        }
        return [chat('cold', talk), chat('edit', [...talk.slice(0, -1), user(`${w.text(6)} ${talk[talk.length - 1].content}`)])];
    }],
    'two-long-turns': ['a system text and two turns of 3,000; then an edit in the middle of the first', (w) => {
        const talk = [system(w.text(300)), user(w.text(3000)), assistant(w.text(3000)), user(w.text(30))];
        return [chat('cold', talk), chat('edit', [talk[0], user(edited(talk[1].content, 0.5, w.text(1500))), ...talk.slice(2)])];
    }],
    'five-observations': ['an agent that keeps only the last five observations', (w) => {
        const talk = [system(w.text(500)), user(w.text(900))];
        const requests = [];
        for (let j = 0; j < 13; j++) {
            requests.push(chat('main', talk, { tools: TOOLS }));
            talk.push(call('', `c${j}`, w.text(w.between(20, 60))), result(w.text(w.between(120, 500)), `c${j}`));
            if (j >= 5) {
                talk[3 + 2 * (j - 5)] = result('(removed)', `c${j - 5}`);
            }
        }
        return requests;
    }],
    compaction: ['a tool loop whose history is replaced by a summary at 4,500 tokens', (w) => {
        let talk = [system(w.text(1300)), user(w.text(200))];
        const requests = [];
        let held = 1500;
        for (let j = 0; j < 14; j++) {
            requests.push(chat('main', talk, { tools: TOOLS }));
            const observation = w.between(250, 600);
            talk.push(call(w.text(30), `c${j}`, w.text(30)), result(w.text(observation), `c${j}`));
            held += observation + 80;
            if (held > 4500) {
                requests.push(chat('compact', [...talk, user(w.text(150))], { tools: TOOLS }));
                talk = [talk[0], user(w.text(300)), ...talk.slice(-2)];
                held = 1300 + 300 + observation + 80;
            }
        }
        return requests;
    }],
    'reasoning-dropped': ['reasoning is dropped from the history at each new user message', (w) => {
        const talk = [system(w.text(900))];
        const requests = [];
        for (let u = 0; u < 4; u++) {
            talk.push(user(w.text(w.between(60, 250))));
            for (let j = 0; j < 3; j++) {
                requests.push(chat('main', talk, { tools: TOOLS, chat_template_kwargs: {} }));
                const id = `c${u}${j}`;
                if (j < 2) {
                    talk.push(call(w.text(20), id, w.text(30), w.text(w.between(150, 400))), result(w.text(w.between(100, 400)), id));
                } else {
                    talk.push({ ...assistant(w.text(120)), reasoning_content: w.text(w.between(150, 400)) });
                }
            }
        }
        return requests;
    }],
    regenerate: ['answers regenerated, early messages edited, branches switched', (w) => {
        const branches = [[system(w.text(700))]];
        const requests = [];
        let now = 0;
        const turn = (length) => {
            branches[now].push(user(w.text(length)));
            requests.push(chat('main', branches[now]));
            branches[now].push(assistant(w.text(w.between(80, 250))));
        };
        turn(400);
        turn(300);
        turn(200);
        for (let i = 0; i < 12; i++) {
            const dice = w.random();
            if (dice < 0.25) {
                const talk = branches[now];
                requests.push(chat('regenerate', talk.slice(0, -1)));
                talk[talk.length - 1] = assistant(w.text(w.between(80, 250)));
            } else if (dice < 0.5 && branches.length < 4) {
                const cut = 1 + 2 * Math.floor(w.random() * ((branches[now].length - 1) / 2));
                branches.push(branches[now].slice(0, cut));
                now = branches.length - 1;
                turn(250);
            } else if (dice < 0.75) {
                now = Math.floor(w.random() * branches.length);
                turn(120);
            } else {
                turn(w.between(80, 400));
            }
        }
        return requests;
    }],
    'round-robin': ['four conversations in turn on one system text', (w) => {
        const talks = [0, 1, 2, 3].map(() => []);
        const head = system(w.text(1600));
        const requests = [];
        for (let round = 0; round < 4; round++) {
            for (const talk of talks) {
                talk.push(user(w.text(w.between(60, 300))));
                requests.push(chat('main', [head, ...talk]));
                talk.push(assistant(w.text(w.between(60, 300))));
            }
        }
        return requests;
    }],
    'side-requests': ['a long conversation with a title, suggestions and a memory request beside it', (w) => {
        const talk = [system(w.text(1300))];
        const [title, memory, suggest] = [w.text(200), w.text(700), w.text(120)];
        const requests = [];
        for (let i = 0; i < 7; i++) {
            talk.push(user(w.text(w.between(60, 300))));
            requests.push(chat('main', talk));
            talk.push(assistant(w.text(w.between(80, 250))));
            if (i === 0) {
                requests.push(chat('title', [system(title), talk[1]]));
            } else if (i === 4) {
                requests.push(chat('memory', [system(memory), ...talk.slice(1), user('Go on.')]));
            } else {
                requests.push(chat('suggest', [...talk, user(suggest)]));
            }
        }
        return requests;
    }],
    clock: ['the time of day at the end of the system text', (w) => {
        const head = w.text(1900);
        const talk = [];
        return Array.from({ length: 9 }, (_, i) => {
            if (i > 0) {
                talk.push(assistant(w.text(w.between(40, 120))));
            }
            talk.push(user(w.text(w.between(30, 120))));
            return chat('main', [system(`${head}\nIt is ${10 + i}:${11 + 5 * i}:07.`), ...talk]);
        });
    }],
    document: ['one document of 4,500 tokens and questions about it', (w) => {
        const [head, document] = [system(w.text(150)), w.text(4500)];
        return Array.from({ length: 8 }, () => chat('main', [head, user(`${document}\n\n${w.text(w.between(15, 60))}`)]));
    }],
    flood: ['a long conversation beside prompts that never come back', (w) => {
        const talk = [system(w.text(800))];
        const requests = [];
        for (let i = 0; i < 4; i++) {
            talk.push(user(w.text(w.between(200, 500))));
            requests.push(chat('main', talk));
            talk.push(assistant(w.text(w.between(100, 250))));
            for (let k = 0; k < 6; k++) {
                requests.push(chat('oneshot', [user(w.text(350))]));
            }
        }
        return requests;
    }],
};

// --- recorded traffic -----------------------------------------------------------------------------------------------

// A long text keeps its head and its tail: what was appended or edited there stays different.
function shorten(text, most) {
    return text.length <= most ? text : `${text.slice(0, Math.floor(most * 0.7))} ... ${text.slice(text.length - Math.floor(most * 0.3))}`;
}

function shortenAll(value, most) {
    if (typeof value === 'string') {
        return shorten(value, most);
    }
    if (Array.isArray(value)) {
        return value.map((one) => shortenAll(one, most));
    }
    return value && typeof value === 'object' ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, shortenAll(one, most)])) : value;
}

const partsText = (content) => (typeof content === 'string' ? content : (content || []).map((part) => part.text || '').join('\n'));

// Anthropic's messages as chat messages.
function chatOfMessages(body) {
    const messages = body.system ? [system(partsText(body.system))] : [];
    for (const message of body.messages) {
        const parts = typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content;
        const texts = parts.filter((part) => part.type === 'text').map((part) => part.text).join('\n');
        for (const part of parts.filter((one) => one.type === 'tool_result')) {
            messages.push(result(partsText(part.content), part.tool_use_id));
        }
        if (message.role === 'assistant') {
            const calls = parts.filter((part) => part.type === 'tool_use').map((part) => ({ id: part.id, type: 'function',
                function: { name: part.name, arguments: JSON.stringify(part.input) } }));
            const thinking = parts.filter((part) => part.type === 'thinking').map((part) => part.thinking).join('\n');
            messages.push({ role: 'assistant', content: texts, ...(thinking ? { reasoning_content: thinking } : {}), ...(calls.length ? { tool_calls: calls } : {}) });
        } else if (texts) {
            // The template takes a system message at the beginning only.
            messages.push(user(texts));
        }
    }
    const tools = (body.tools || []).map((tool) => ({ type: 'function', function: { name: tool.name, description: tool.description || '',
        parameters: tool.input_schema || { type: 'object', properties: {} } } }));
    return { messages, tools };
}

function requestOf(line, options) {
    const anthropic = line.path.startsWith('/v1/messages');
    const tools = (line.body.tools || []).slice(0, 6).map((tool) => shortenAll(tool, 60));
    if (anthropic && options.messages) {
        // System messages between the others are left out: llama-server refuses them with templates that want them first.
        const kept = line.body.messages.filter((message) => message.role !== 'system');
        const { system: head, messages } = shortenAll({ system: line.body.system, messages: kept }, 500);
        return { path: '/v1/messages', kind: line.kind, body: { model: 'model', system: head, messages, ...(tools.length ? { tools } : {}) } };
    }
    const source = anthropic ? chatOfMessages({ ...line.body, tools }) : { messages: line.body.messages, tools };
    const messages = source.messages.map((message, index) => shortenAll(message, index === 0 && message.role === 'system' ? 2400 : 700));
    return { path: '/v1/chat/completions', kind: line.kind, body: { messages, ...(source.tools.length ? { tools: source.tools } : {}) } };
}

// The first requests of some sessions of a recorded file; null where the zstd command is missing.
function recorded(name, options) {
    const file = path.join(ROOT, 'traces', `${name}.jsonl.zst`);
    const plain = spawnSync('zstd', ['-dc', file], { maxBuffer: 1 << 30 });
    if (plain.error || plain.status !== 0) {
        return null;
    }
    const lines = plain.stdout.toString('utf8').trim().split('\n').map((line) => JSON.parse(line));
    const served = lines.filter((line) => line.status === 200 && line.kind !== 'count' && Array.isArray(line.body.messages));
    const requests = [];
    for (const [session, most] of options.sessions) {
        requests.push(...served.filter((line) => line.session === session).slice(0, most).map((line) => requestOf(line, options)));
    }
    return { name: `trace-${name}`, about: `recorded: ${name}, ${options.sessions.map(([session, most]) => `${session} (first ${most})`).join(', ')}; long texts shortened`,
        recorded: true, requests };
}

const RECORDED = {
    opencode: [['opencode/a1', 9]],
    claude: [['claude/s1', 6]],
};

/*
 * All scenarios.
 *   seed, scale (lengths), tokensPerWord (of the model's vocabulary), messages (true: the claude trace goes to /v1/messages)
 */
function makeScenarios({ seed = 1, scale = 1, tokensPerWord = 1.3, messages = false, only = null } = {}) {
    const made = Object.entries(MAKERS).map(([name, [about, make]], index) => ({ name, about, recorded: false, requests: make(writer(seed * 100 + index, tokensPerWord, scale)) }));
    for (const [name, sessions] of Object.entries(RECORDED)) {
        const one = recorded(name, { sessions, messages });
        if (one) {
            made.push(one);
        } else {
            console.error(`the recorded trace ${name} is left out: the zstd command is not installed`);
        }
    }
    return only ? made.filter((one) => only.includes(one.name)) : made;
}

module.exports = { makeScenarios, chatOfMessages, WORDS };

if (require.main === module) {
    const args = process.argv.slice(2);
    const option = (name, value) => (args.includes(name) ? Number(args[args.indexOf(name) + 1]) : value);
    const dir = args[0];
    if (!dir || dir.startsWith('--')) {
        console.error('usage: node tools/bench_scenarios.js DIR [--seed N] [--scale X] [--tokens-per-word X]');
        process.exit(2);
    }
    fs.mkdirSync(dir, { recursive: true });
    for (const one of makeScenarios({ seed: option('--seed', 1), scale: option('--scale', 1), tokensPerWord: option('--tokens-per-word', 1.3) })) {
        fs.writeFileSync(path.join(dir, `${one.name}.json`), `${JSON.stringify(one, null, 1)}\n`);
        console.log(`${one.name}: ${one.requests.length} requests`);
    }
}
