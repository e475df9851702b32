// bench_parts - what tools/bench measures, part by part. A part is given { add, group, model, sizes, options } and calls
// add(group, what, value, unit, { low, high, goal, command }) for each figure.
'use strict';
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const bench = require('./bench_lib.js');
const { WORDS } = require('./bench_scenarios.js');

const { ROOT, Server, progress, median, fixed, thousands } = bench;
const PROGRAMS = process.env.CAIRN_BENCH || path.join(ROOT, 'build/release/bench');
const GIB = ['--cache-ram', '2G', '--no-cache-disk'];

// --- programs that print CSV ------------------------------------------------------------------------------------------

function runProgram(name, args, shown) {
    progress(`${name} ${shown}`);
    const done = spawnSync(path.join(PROGRAMS, name), args, { encoding: 'utf8', maxBuffer: 1 << 24 });
    if (done.error || done.status !== 0) {
        throw new Error(`${name} ${args.join(' ')}: ${done.error ? done.error.message : done.stderr}`);
    }
    return done.stdout.trim().split('\n').map((line) => line.split(','));
}

const GOALS = [
    [/^(taking|restoring) a state \/ memcpy/, 'at least 0.8'], [/reading again \/ switching/, 'at least 50'],
    [/lookup and plan/, 'under 0.5 ms'], [/^index with/, 'at most 8 bytes a token'],
];
const goalOf = (what) => (GOALS.find(([pattern]) => pattern.test(what)) || [])[1];

function core({ add }) {
    for (const [, what, value, unit] of runProgram('bench_core', [], '')) {
        add('core', what, Number(value), unit, { command: 'bench_core', goal: goalOf(what) });
    }
}

function engine({ add, group, model, sizes, options }) {
    const shown = `MODEL ${sizes.rows} ${options.threads}`;
    for (const [, what, value, unit, low, high] of runProgram('bench_engine', [model, String(sizes.rows), String(options.threads)], shown)) {
        add(group, what, Number(value), unit, { ...(low ? { low: Number(low), high: Number(high) } : {}), command: `bench_engine ${shown}`, goal: goalOf(what) });
    }
}

function disk({ add, options }) {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-bench-disk-'));
    for (const args of [['open', dir, String(options.quick ? 2000 : 20000)], ['read', dir]]) {
        const command = `bench_disk ${args[0]} DIR ${args[2] || ''}`.trim();
        for (const [what, value, unit] of runProgram('bench_disk', args, args[0]).slice(1)) {
            add('disk', what, Number(value), unit, { command });
        }
    }
    fs.rmSync(dir, { recursive: true, force: true });
}

// --- requests ---------------------------------------------------------------------------------------------------------

function text(random, tokens) {
    return Array.from({ length: Math.round(tokens * 0.95) }, () => WORDS[Math.floor(random() * WORDS.length)]).join(' ');
}

const user = (content) => ({ role: 'user', content });

async function ask(server, messages, answer) {
    const got = await server.stream('/v1/chat/completions', { messages, temperature: 0, max_tokens: answer, ignore_eos: true,
        chat_template_kwargs: { enable_thinking: false }, cairn: { explain: true }, stream_options: { include_usage: true } });
    const timings = [...got.events].reverse().map((event) => event.timings).find(Boolean);
    const record = got.events.map((event) => event.cairn).find(Boolean);
    if (got.status !== 200 || !timings || !record) {
        throw new Error(`a request failed: ${got.status} ${JSON.stringify(got.events.slice(-1))}`);
    }
    return { ...got, timings, record };
}

function startCairn(model, context, threads, args) {
    return Server.cairn(model, { context, threads, args });
}

// Each mode in turn and back, each round with a prompt of its own and servers started for it: where a process lies in memory alone
// makes some percent, for as long as it lives. A short request warms each up. Gives samples[mode][round].
async function inTurn({ model, group }, modes, { what, context, threads, rounds, prompt, answer }) {
    const samples = modes.map(() => []);
    const turn = modes.map((_, index) => index);
    for (let round = 0; round < rounds; round++) {
        const messages = [user(prompt(round))];
        for (const index of round % 2 ? [...turn].reverse() : turn) {
            progress(`${group}: ${what}: round ${round + 1} of ${rounds}: ${modes[index].join(' ')}`);
            const server = await startCairn(model, context, threads, modes[index]);
            await ask(server, [user(`${round} Say something short, please, and then stop.`)], 4);
            samples[index].push(await ask(server, messages, answer));
            await server.stop();
        }
    }
    return samples;
}

// Ratios of mode `index` to mode 0, pair by pair.
function addRatio(add, group, what, samples, index, value, extra) {
    const s = bench.spread(samples[index].map((one, round) => value(one) / value(samples[0][round])));
    add(group, what, s.median, 'ratio', { low: s.low, high: s.high, ...extra });
}

const promptTime = (one) => one.timings.prompt_ms / one.timings.prompt_n;
const promptCpu = (one) => one.first_cpu_ms / one.timings.prompt_n;
const tokenTime = (one) => one.timings.predicted_ms / (one.timings.predicted_n - 1);
const tokenCpu = (one) => (one.total_cpu_ms - one.first_cpu_ms) / (one.timings.predicted_n - 1);

// Cold prefill: each mode against the cache turned off.
async function prefill(context, tokens, rounds, withDisk) {
    const { add, group, options } = context;
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-bench-'));
    const modes = [['--no-cache'], [...GIB, '--resume', 'fast'], [...GIB, '--resume', 'exact'], ...(withDisk ? [['--cache-ram', '2G', '--cache-disk', `${dir}:2G`]] : [])];
    const random = bench.randomOf(97 + tokens);
    const samples = await inTurn(context, modes, { what: `cold ${thousands(tokens)}`, context: tokens + 1024, threads: options.threads, rounds, prompt: () => text(random, tokens), answer: 2 });
    fs.rmSync(dir, { recursive: true, force: true });
    const command = `cairn serve -m MODEL -c ${tokens + 1024} -t ${options.threads} with --no-cache; --no-cache-disk --resume fast; --no-cache-disk --resume exact${withDisk ? '; --cache-disk' : ''}`;
    const what = `cold prefill of ${thousands(tokens)}`;
    add(group, `${what}, cache off`, 1000 / median(samples[0].map(promptTime)), 'tokens/s', { command });
    for (const [index, name] of [[1, 'fast'], [2, 'exact'], [3, 'fast with disk']].filter(([index]) => index < modes.length)) {
        addRatio(add, group, `${what}, time ${name} / off`, samples, index, promptTime, { goal: 'at most 1.01', command });
        addRatio(add, group, `${what}, processor time ${name} / off`, samples, index, promptCpu, { command });
    }
}

async function cold(context) {
    for (const [tokens, rounds, withDisk] of context.sizes.cold) {
        await prefill(context, tokens, rounds, withDisk);
    }
}

// Long answers to short prompts, on one core less than there are: the client and the server's other threads need some of it.
async function decode(context) {
    const { add, group, options, sizes } = context;
    const threads = Math.max(1, os.cpus().length - 1);
    const random = bench.randomOf(13);
    const modes = [['--no-cache'], [...GIB, '--resume', 'fast'], [...GIB, '--resume', 'exact']];
    const samples = await inTurn(context, modes, { what: 'decode', context: 4096, threads, rounds: sizes.rounds, prompt: () => text(random, 300), answer: sizes.answer });
    const command = `cairn serve -m MODEL -c 4096 -t ${threads} with --no-cache; --no-cache-disk --resume fast; --no-cache-disk --resume exact; answers of ${sizes.answer} tokens`;
    add(group, 'decode, cache off', 1000 / median(samples[0].map(tokenTime)), 'tokens/s', { command });
    for (const [index, name] of [[1, 'fast'], [2, 'exact']]) {
        addRatio(add, group, `decode, time ${name} / off`, samples, index, tokenTime, { goal: 'at most 1.01', command });
        addRatio(add, group, `decode, processor time ${name} / off`, samples, index, tokenCpu, { goal: 'at most 1.01', command });
    }
}

// Two conversations in turn on one slot: what coming back costs, against reading them again.
async function switching({ add, group, model, sizes, options }) {
    const server = await startCairn(model, sizes.rows + 2048, options.threads, GIB);
    const random = bench.randomOf(11);
    const talks = [0, 1].map(() => [user(text(random, sizes.rows))]);
    const cold = [];
    for (const talk of talks) {
        progress(`${group}: switching: reading ${thousands(sizes.rows)}`);
        cold.push((await ask(server, talk, 2)).timings.prompt_ms);
    }
    const back = [];
    const reads = [];
    for (let i = 0; i < 2 * sizes.rounds; i++) {
        progress(`${group}: switching: ${i + 1} of ${2 * sizes.rounds}`);
        const talk = talks[i % 2];
        talk.push({ role: 'assistant', content: 'Yes.' }, user('And then?'));
        const got = await ask(server, talk, 2);
        back.push(got.timings.prompt_ms - got.record.times.read_ms);
        reads.push(got.timings.prompt_n);
    }
    await server.stop();
    const command = `cairn serve -m MODEL -c ${sizes.rows + 2048} -t ${options.threads} ${GIB.join(' ')}`;
    const s = bench.spread(back);
    add(group, `coming back to a conversation of ${thousands(sizes.rows)} on one slot, without reading what is new`, s.median, 'ms', { low: s.low, high: s.high, command });
    add(group, 'reading it again / coming back', median(cold) / s.median, 'ratio', { goal: 'at least 50', command });
    add(group, 'tokens read when coming back', median(reads), 'tokens', { command });
}

// A conversation, the server stopped and started again, and its next message.
async function restart({ add, group, model, sizes, options }) {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-bench-'));
    const args = ['--cache-ram', '2G', '--cache-disk', `${dir}:4G`];
    const random = bench.randomOf(17);
    const talk = [user(text(random, sizes.restart))];
    const rounds = Math.min(3, options.rounds);
    const back = [];
    let cold = 0;
    let read = 0;
    for (let round = 0; round <= rounds; round++) {
        progress(`${group}: restart: ${round} of ${rounds}`);
        const server = await startCairn(model, sizes.restart + 2048, options.threads, args);
        const begun = process.hrtime.bigint();
        const got = await ask(server, talk, 2);
        const ms = Number(process.hrtime.bigint() - begun) / 1e6;
        await server.stop();
        if (round === 0) {
            cold = ms;
        } else {
            back.push(ms);
            read = got.timings.prompt_n;
        }
        talk.push({ role: 'assistant', content: 'Yes.' }, user('And then?'));
    }
    fs.rmSync(dir, { recursive: true, force: true });
    const command = `cairn serve -m MODEL -c ${sizes.restart + 2048} -t ${options.threads} --cache-ram 2G --cache-disk DIR:4G, stopped and started between requests`;
    const s = bench.spread(back);
    add(group, `first request after a restart, conversation of ${thousands(sizes.restart)}`, s.median, 'ms', { low: s.low, high: s.high, command });
    add(group, 'reading it cold / the same after a restart', cold / s.median, 'ratio', { command });
    add(group, 'tokens read after a restart', read, 'tokens', { command });
}

// From the last prompt token's decode to the first byte handed to the connection, as the server measures it; and what a client sees: there
// the request's way in counts too (connection, JSON, template, tokens, plan).
async function firstByte({ add, group, model, options }) {
    const threads = Math.max(1, os.cpus().length - 1);
    const server = await startCairn(model, 4096, threads, GIB);
    const random = bench.randomOf(5);
    const inside = [];
    const outside = [];
    for (let i = 0; i < 6 * options.rounds; i++) {
        progress(`${group}: first byte: ${i + 1} of ${6 * options.rounds}`);
        const got = await ask(server, [user(text(random, 30))], 16);
        if (i > 0 && got.timings.first_byte_ms !== undefined) {
            inside.push(got.timings.first_byte_ms);
            outside.push(got.first_ms - got.timings.prompt_ms);
        }
    }
    await server.stop();
    const command = `cairn serve -m MODEL -c 4096 -t ${threads}: timings.first_byte_ms of streams`;
    const [a, b] = [bench.spread(inside), bench.spread(outside)];
    add(group, 'last prompt token decoded to first byte on its way', a.median, 'ms', { low: a.low, high: a.high, goal: 'under 2 ms', command });
    add(group, 'a small request\'s first event without its prompt\'s time, seen by the client', b.median, 'ms', { low: b.low, high: b.high, command });
}

// One slot reads a long prompt while two others stream: their time between tokens, against theirs alone.
async function besides({ add, group, model, sizes, options }) {
    const server = await startCairn(model, sizes.besides + 2048, options.threads, [...GIB, '--slots', '3']);
    const random = bench.randomOf(23);
    const gapsOf = async (count) => {
        const streams = await Promise.all(Array.from({ length: 2 }, () => server.stream('/v1/chat/completions', { messages: [user(text(random, 40))], temperature: 0,
            max_tokens: count, ignore_eos: true, chat_template_kwargs: { enable_thinking: false } })));
        return streams.flatMap((one) => one.times.slice(2).map((time, index) => time - one.times[index + 1]));
    };
    progress(`${group}: streams alone`);
    await gapsOf(20);
    const alone = bench.spread(await gapsOf(sizes.besidesAnswer));
    progress(`${group}: streams beside a prompt of ${thousands(sizes.besides)}`);
    let reading = true;
    const long = ask(server, [user(text(random, sizes.besides))], 2).then((got) => { reading = false; return got; });
    const beside = [];
    while (reading) {
        const gaps = await gapsOf(sizes.besidesAnswer);
        beside.push(...(reading ? gaps : []));
    }
    const prompt = (await long).timings.prompt_ms;
    await server.stop();
    const command = `cairn serve -m MODEL -c ${sizes.besides + 2048} -t ${options.threads} --slots 3: two streams, and a prompt of ${thousands(sizes.besides)} tokens`;
    add(group, 'time between tokens of two streams, alone', alone.median, 'ms', { command });
    if (beside.length > 0) {
        add(group, `time between tokens beside a prompt of ${thousands(sizes.besides)} / alone`, median(beside) / alone.median, 'ratio', { goal: 'at most 3', command });
    }
    add(group, 'that prompt\'s time', prompt, 'ms', { command });
}

// The three requests: how much of the longest common prefix the second one reuses.
async function threeRequests({ add, group, model, sizes, options }) {
    const each = sizes.each;
    for (const mode of ['fast', 'exact']) {
        const server = await startCairn(model, 3 * each + 2048, options.threads, [...GIB, '--resume', mode]);
        const random = bench.randomOf(3);
        const [head, u1, u2, u3, edited] = [200, each, each, each, each].map((count) => text(random, count));
        const talk = (last) => [{ role: 'system', content: head }, user(u1), { role: 'assistant', content: 'One.' }, user(u2), { role: 'assistant', content: 'Two.' }, user(last)];
        progress(`${group}: three requests, ${mode}`);
        const first = await ask(server, talk(u3), 8);
        const second = await ask(server, talk(edited), 8);
        const known = second.record.prompt_tokens - second.record.least;
        const command = `cairn serve -m MODEL --resume ${mode} -t ${options.threads}; make demo shows the same`;
        add(group, `request 2 of three, ${mode}: reused of the longest common prefix (${thousands(known)} tokens)`, 100 * second.record.reused / known, '%', { goal: 'at least 99 %', command });
        add(group, `request 2 of three, ${mode}: faster than request 1`, first.timings.prompt_ms / second.timings.prompt_ms, 'times', { command });
        await server.stop();
    }
}

// --- growth -----------------------------------------------------------------------------------------------------------

const PLOTS = [['growth-length-time.svg', 'One conversation: time', 'tokens', 'ms', ['length: reading it cold', 'length: lookup and plan of an edit', 'length: serving the edit']],
    ['growth-length-memory.svg', 'One conversation: memory', 'tokens', 'MiB', ['length: index']],
    ['growth-count-time.svg', 'Many conversations: time', 'conversations of 1,200 tokens', 'ms', ['count: lookup and plan of an edit', 'count: serving the edit']],
    ['growth-count-memory.svg', 'Many conversations: memory', 'conversations of 1,200 tokens', 'MiB', ['count: index', 'count: all of the cache']]];

function growth({ dir }) {
    const series = new Map();
    for (const [, name, x, y, unit] of runProgram('bench_growth', [], '')) {
        series.set(name, [...(series.get(name) || []), [Number(x), Number(y), unit]]);
    }
    // The slope in the log-log plane between the first and the last point; over the last doubling in brackets.
    const slope = (a, b) => Math.log(b[1] / a[1]) / Math.log(b[0] / a[0]);
    const out = ['# Growth', '', 'Made by `make bench`. The replica engine computes nothing: the times are cairn\'s own. Command: `bench_growth`.', '',
        bench.machineText(bench.describeMachine()), ''];
    for (const [file, title, xLabel, yLabel, names] of PLOTS) {
        const shown = names.filter((name) => series.has(name)).map((name) => ({ name: name.replace(/^\w+: /, ''), points: series.get(name) }));
        fs.writeFileSync(path.join(dir, file), bench.plotLogLog({ title, xLabel, yLabel, series: shown }));
    }
    const rows = [...series].map(([name, at]) => [name, `${thousands(at[0][0])} to ${thousands(at[at.length - 1][0])}`, `${Number(at[0][1].toPrecision(3))} ${at[0][2]}`,
        `${Number(at[at.length - 1][1].toPrecision(3))} ${at[0][2]}`, `${fixed(slope(at[0], at[at.length - 1]), 2)} (${fixed(slope(at[at.length - 2], at[at.length - 1]), 2)})`]);
    out.push(bench.markdownTable(['series', 'from, to', 'first', 'last', 'slope (of the last step)'], rows), '',
        'Slope 0: the same for all sizes. 1: in proportion. Lookup and plan compare the prompt\'s tokens with what is known, so 1 in length is the least there is.', '',
        ...PLOTS.map(([file, title]) => `![${title}](${file})`), '');
    fs.writeFileSync(path.join(dir, 'growth.md'), out.join('\n'));
}

// In the order of the page. `once`: not for each model.
const PARTS = [
    { name: 'core', once: true, run: core }, { name: 'disk', once: true, run: disk }, { name: 'growth', once: true, run: growth },
    { name: 'decode', run: decode }, { name: 'cold', run: cold }, { name: 'engine', run: engine }, { name: 'switching', run: switching },
    { name: 'restart', run: restart }, { name: 'first-byte', run: firstByte }, { name: 'besides', run: besides }, { name: 'three', run: threeRequests },
];

module.exports = { PARTS };
