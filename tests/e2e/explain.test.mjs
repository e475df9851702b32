// `cairn explain` and `cairn top` on the command line.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { MODEL, Server, runProgram, words } from './harness.mjs';

let folder;

before(async () => {
    folder = await mkdtemp(`${process.env.TMPDIR ?? '/tmp'}/cairn-explain-`);
});

after(async () => {
    await rm(folder, { recursive: true });
});

async function explain(a, b, more = ['--json']) {
    await writeFile(`${folder}/a.json`, JSON.stringify(a));
    await writeFile(`${folder}/b.json`, JSON.stringify(b));
    const end = await runProgram(['explain', '-m', MODEL, ...more, `${folder}/a.json`, `${folder}/b.json`]);
    assert.equal(end.code, 0, end.err);
    return more.includes('--json') ? JSON.parse(end.out) : end.out;
}

const TOOLS = ['read', 'write', 'list'].map((name) => ({
    type: 'function', function: { name, description: `${name} files`, parameters: { type: 'object', properties: { path: { type: 'string' } } } },
}));
const SYSTEM = `You are careful.\nStatus: ready\n${words(80, 1)}`;
const call = (args) => ({ id: 'call_1', type: 'function', function: { name: 'read', arguments: args } });
const history = (edits = {}) => [
    { role: 'system', content: edits.system ?? SYSTEM },
    { role: 'user', content: edits.user ?? words(60, 2) },
    { role: 'assistant', content: 'Let me look.', reasoning_content: edits.reasoning ?? 'I need the file.', tool_calls: [call(edits.args ?? '{"path": "a.txt"}')] },
    { role: 'tool', tool_call_id: 'call_1', content: edits.result ?? words(200, 3) },
    { role: 'assistant', content: edits.answer ?? words(30, 4) },
    { role: 'user', content: words(40, 5) },
];
const body = (edits, more = {}) => ({ messages: history(edits), tools: TOOLS, ...more });

const CASES = [
    ['clock', body({ system: `Now: 2026-02-03 12:01\n${SYSTEM}` }), body({ system: `Now: 2026-02-03 12:02\n${SYSTEM}` }), 0],
    ['number', body({ system: `${SYSTEM} Session 4711.` }), body({ system: `${SYSTEM} Session 4812.` }), 0],
    ['line', body({}), body({ system: SYSTEM.replace('ready', 'waiting') }), 0],
    ['system', body({}), body({ system: `${SYSTEM} And be brief. ${words(9, 8)}\n${words(9, 9)}` }), 0],
    ['tools-order', body({}), body({}, { tools: [TOOLS[1], TOOLS[0], TOOLS[2]] }), undefined],
    ['tools-set', body({}), body({}, { tools: TOOLS.slice(0, 2) }), undefined],
    ['tool-text', body({}), body({}, { tools: [TOOLS[0], TOOLS[1], { ...TOOLS[2], function: { ...TOOLS[2].function, description: 'other' } }] }), undefined],
    ['blanks', body({ user: words(60, 2).replace(' ', '  ') }), body({}), 1],
    ['reasoning', { ...body({}), messages: history().slice(0, 4) }, { ...body({}), messages: history({ reasoning: 'Because.' }).slice(0, 4) }, 2],
    ['arguments', body({ args: '{"path": "a.txt", "line": 1}' }), body({ args: '{"line":1,"path":"a.txt"}' }), 2],
    ['tool-cleared', body({}), body({ result: '[cleared]' }), 3],
    ['tool-result', body({}), body({ result: `${words(200, 3)} more` }), 3],
    ['answer', body({}), body({ answer: 'no' }), 4],
    ['user', body({}), body({ user: words(61, 7) }), 1],
    ['dropped', body({}), { ...body({}), messages: [history()[0], ...history().slice(4)] }, 1],
    ['inserted', body({}), { ...body({}), messages: [history()[0], { role: 'user', content: 'first of all' }, ...history().slice(1)] }, 1],
    ['earlier', body({}), { ...body({}), messages: history().slice(0, 2) }, undefined],
    ['extended', body({}), { ...body({}), messages: [...history(), { role: 'assistant', content: 'x' }, { role: 'user', content: 'y' }] }, undefined],
    ['same', body({}), body({}), undefined],
];

for (const [word, a, b, message] of CASES) {
    test(`explain finds the cause: ${word}`, async () => {
        const found = await explain(a, b);
        assert.equal(found.cause.word, word, JSON.stringify(found, null, 1));
        if (message !== undefined) {
            assert.equal(found.cause.message, message);
            assert.ok(found.common < Math.min(...found.tokens));
            assert.notEqual(found.excerpt.known, found.excerpt.given);
        }
        assert.ok(found.resume <= found.common);
        assert.equal(found.least, Math.max(1, found.tokens[1] - found.common));
    });
}

test('explain agrees with a server that was asked both', async () => {
    const server = await Server.start(['-c', '4096', '--cache-ram', '256M']);
    try {
        const [a, b] = [body({}), body({ result: '[cleared]' })];
        await server.chat(a.messages, { tools: TOOLS });
        const { json } = await server.chat(b.messages, { tools: TOOLS, cairn: { explain: true } });
        const found = await explain(a, b);
        assert.equal(json.cairn.prompt_tokens, found.tokens[1]);
        assert.equal(json.cairn.divergence.position, found.common);
        assert.equal(json.cairn.least, found.least);
        // Which of the places explain knows of got a state is a matter of measured costs; one on the grid always did.
        assert.ok(json.cairn.reused <= found.resume && json.cairn.reused > found.resume - 512, `${json.cairn.reused}, explain ${found.resume}`);
    } finally {
        await server.stop();
    }
});

test('explain takes the bodies of the Messages and the Responses API', async () => {
    const messages = [{ role: 'user', content: [{ type: 'text', text: words(40, 1) }] }, { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'read', input: { path: 'a' } }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: words(90, 2) }] }];
    const a = { model: 'x', max_tokens: 9, system: 'Be kind.', messages };
    const b = structuredClone(a);
    b.messages[2].content[0].content = '[cleared]';
    assert.equal((await explain(a, b)).cause.word, 'tool-cleared');
    assert.match(await explain(a, b, []), /message 3 \(tool\)[^]*counted from 0, which is the system text/);
    const input = (text) => ({ model: 'x', instructions: `It is 12:0${text} o'clock. ${words(30, 2)}`, input: words(30, 1) });
    assert.equal((await explain(input(1), input(2))).cause.word, 'clock');
});

test('explain needs no model: a vocabulary will do, and one came with the program', async () => {
    const [a, b] = [body({}), body({ result: '[cleared]' })];
    const withModel = await explain(a, b);
    for (const more of [[], ['--vocab', MODEL]]) {
        const end = await runProgram(['explain', '--json', ...more, `${folder}/a.json`, `${folder}/b.json`]);
        assert.equal(end.code, 0, end.err);
        const found = JSON.parse(end.out);
        assert.equal(found.cause.word, 'tool-cleared');
        assert.equal(found.tokens[1] - found.common, found.least);
        assert.ok(more.length === 0 || found.common === withModel.common); // other vocabularies cut words elsewhere
    }
});

test('explain speaks to people, in colour when asked', async () => {
    const [a, b] = [body({ args: '{"path": "a.txt", "line": 1}' }), body({ args: '{"line":1,"path":"a.txt"}' })];
    const plain = await explain(a, b, []);
    assert.match(plain, /They part after \d+ tokens, in message 2 \(assistant\)/);
    assert.match(plain, /cause .*arguments[^]*what helps .*text that came/);
    assert.match(plain, /any cache at best +\d+/);
    assert.ok(!plain.includes('\x1b'));
    assert.ok((await explain(a, b, ['--color', 'always'])).includes('\x1b[31m'));
});

test('explain says which file is wrong, and how', async () => {
    await writeFile(`${folder}/good.json`, JSON.stringify(body({})));
    await writeFile(`${folder}/bad.json`, '{"messages": [');
    await writeFile(`${folder}/odd.json`, '{"messages": [{"role": "nobody", "content": "x"}]}');
    await writeFile(`${folder}/none.json`, '{"prompt": "x"}');
    const run = (...args) => runProgram(['explain', '-m', MODEL, ...args]);
    for (const [file, pattern] of [['bad', /bad\.json.*line 1/], ['odd', /odd\.json.*nobody/], ['none', /none\.json.*messages/], ['missing', /missing\.json/]]) {
        for (const args of [[`${folder}/good.json`, `${folder}/${file}.json`], [`${folder}/${file}.json`, `${folder}/good.json`]]) {
            const end = await run(...args);
            assert.equal(end.code, 1);
            assert.match(end.err, pattern);
        }
    }
    assert.equal((await run(`${folder}/good.json`)).code, 2);
    assert.equal((await run('--vocab', MODEL, `${folder}/good.json`, `${folder}/good.json`)).code, 2);
    assert.match((await runProgram(['explain', '-m', `${folder}/good.json`, `${folder}/good.json`, `${folder}/good.json`])).err, /GGUF/);
});

test('top shows slots, tiers and requests, and says when nobody answers', async () => {
    const server = await Server.start(['-c', '2048', '--cache-ram', '128M', '--slots', '2']);
    const top = (port, more = []) => runProgram(['top', '--once', '--port', String(port), ...more]);
    try {
        await server.chat([{ role: 'user', content: words(100, 1) }]);
        await server.chat([{ role: 'user', content: words(100, 1) }]);
        const end = await top(server.port);
        assert.equal(end.code, 0, end.err);
        assert.match(end.out, /slot 0 +\[\.+\] free\nslot 1/);
        assert.match(end.out, /memory +\[[#.]+\] .* of 128 MiB/);
        assert.match(end.out, /% of [\d,]+ prompt tokens reused/);
        assert.match(end.out, /request +prompt +reused +read/);
        assert.equal(end.out.match(/^ +\d+ .* (none|slot|ram) /gm).length, 2);
    } finally {
        await server.stop();
    }
    const gone = await top(server.port);
    assert.equal(gone.code, 1);
    assert.match(gone.err, /no connection/);
});

test('a request\'s time line opens in Perfetto: every piece of work, inside its phases', async () => {
    const server = await Server.start(['-c', '4096', '--cache-ram', '256M']);
    try {
        const first = [{ role: 'system', content: words(200, 1) }, { role: 'user', content: words(900, 2) }];
        await server.chat(first);
        const { json } = await server.chat([first[0], { role: 'user', content: `${words(900, 2)} more` }], { cairn: { explain: true } });
        const { requests } = (await server.get('/cairn/requests')).json;
        const trace = (await server.get(`/cairn/requests/${requests[0].id}/perfetto`)).json;
        const on = (track) => trace.traceEvents.filter((event) => event.ph === 'X' && event.tid === track);
        const [waits, reads, writes] = on(1);
        assert.deepEqual([waits.name, reads.name, writes.name], ['waits for a slot', 'reads the prompt', 'writes the answer']);
        assert.equal(reads.args.reused, json.cairn.reused);
        const work = on(2);
        for (const kind of ['lookup', 'restore', 'read', 'save', 'write']) {
            assert.ok(work.some((event) => event.name === kind), kind);
        }
        const tokens = work.filter((event) => event.name === 'read').reduce((sum, event) => sum + event.args.end - event.args.begin, 0);
        assert.equal(tokens, json.cairn.read);
        work.forEach((event, index) => {
            assert.ok(event.dur >= 0 && (index === 0 || event.ts >= work[index - 1].ts), JSON.stringify(work));
            const phase = event.name === 'write' ? writes : event.name === 'read' ? reads : null;
            assert.ok(phase === null || event.ts >= phase.ts - 1, JSON.stringify([event, phase]));
        });
        assert.equal((await server.get('/cairn/requests/4711/perfetto')).status, 404);
    } finally {
        await server.stop();
    }
});
