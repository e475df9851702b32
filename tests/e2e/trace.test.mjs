// --trace: what a server records, `cairn simulate` replays with the same reuse; and nothing private is in it.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { Server, runProgram, words } from './harness.mjs';

let folder;

before(async () => {
    folder = await mkdtemp(`${process.env.TMPDIR ?? '/tmp'}/cairn-trace-`);
});

after(async () => {
    await rm(folder, { recursive: true });
});

const SYSTEM = { role: 'system', content: `Secretphrase. ${words(120, 1)}` };
const user = (seed, count = 90) => ({ role: 'user', content: words(count, seed) });

// Turns, an edit, a regeneration, another conversation, another namespace, an answer without the cache.
async function converse(server) {
    const reused = [];
    const ask = async (messages, fields = {}) => {
        const { json } = await server.chat(messages, { ...fields, cairn: { explain: true, ...fields.cairn } });
        if (fields.cairn?.resume !== 'off') {
            reused.push(json.cairn.reused);
        }
        return { role: 'assistant', content: json.choices[0].message.content };
    };
    const history = [SYSTEM, user(2, 400)];
    history.push(await ask(history), user(3));
    history.push(await ask(history), user(4, 300));
    await ask(history);
    await ask(history);
    await ask([...history.slice(0, 3), user(5)]);
    await ask([SYSTEM, user(6)]);
    await ask(history, { cache_salt: 'other' });
    await ask(history, { cache_salt: 'other' });
    await ask([SYSTEM, user(6), { role: 'assistant', content: 'Yes.' }, user(7)]);
    return reused;
}

async function record(name, args) {
    const file = `${folder}/${name}.jsonl`;
    const server = await Server.start(['-c', '8192', '--cache-ram', '256M', '--trace', file, ...args]);
    let reused;
    try {
        reused = await converse(server);
    } finally {
        await server.stop();
    }
    return { file, reused, text: await readFile(file, 'utf8') };
}

const linesOf = (text) => text.trim().split('\n').map((line) => JSON.parse(line));

for (const [name, args] of [['fast', []], ['exact', ['--resume', 'exact']], ['private', ['--trace-private']], ['private exact', ['--trace-private', '--resume', 'exact']]]) {
    test(`a replay reuses what the server reused: ${name}`, async () => {
        const { file, reused } = await record(name.replace(' ', '-'), args);
        assert.ok(reused.filter((one) => one > 0).length >= 6, String(reused));
        const end = await runProgram(['simulate', file, '--requests', '--json']);
        assert.equal(end.code, 0, end.err);
        const replay = JSON.parse(end.out);
        assert.deepEqual(replay.requests.map((one) => one.recorded), reused);
        assert.deepEqual(replay.requests.map((one) => one.reused), reused);
        assert.equal(replay.differ, 0);
        assert.equal(replay.requests[0].policy, args.includes('exact') ? 'cairn-exact' : 'cairn');
    });
}

test('a private trace holds no token and no text, and the same paths', async () => {
    const plain = await record('plain', []);
    const veiled = await record('veiled', ['--trace-private']);
    const again = await record('again', ['--trace-private']);
    const requests = (one) => linesOf(one.text).filter((line) => line.tokens);
    assert.equal(requests(plain).length, requests(veiled).length);
    let same = 0;
    requests(plain).forEach((line, index) => {
        const other = requests(veiled)[index];
        assert.equal(line.tokens.length, other.tokens.length);
        assert.deepEqual(line.boundaries, other.boundaries);
        same += line.tokens.filter((token, at) => token === other.tokens[at]).length;
        same += line.answer.filter((token, at) => token === other.answer[at]).length;
    });
    assert.equal(same, 0);
    // Equal tokens at different places have different names, and another server's names are others.
    const [first] = requests(veiled);
    assert.equal(new Set(first.tokens).size, first.tokens.length);
    assert.ok(first.tokens.every((token, at) => token !== requests(again)[0].tokens[at]));
    assert.notEqual(first.ns, requests(again)[0].ns);
    for (const one of [plain, veiled]) {
        assert.ok(!/Secretphrase|river|stone|garden/.test(one.text));
        assert.equal((await stat(one.file)).mode & 0o077, 0);
    }
});

test('a trace stays within its bound, and both of its files can be replayed', async () => {
    const file = `${folder}/small.jsonl`;
    const server = await Server.start(['-c', '4096', '--cache-ram', '128M', '--trace', file, '--trace-max', '64K']);
    try {
        for (let i = 0; i < 24; i++) {
            await server.chat([SYSTEM, user(100 + i, 300)], { max_tokens: 2 });
            const sizes = await Promise.all([file, `${file}.1`].map((name) => stat(name).then((s) => s.size, () => 0)));
            assert.ok(sizes[0] + sizes[1] <= 64 << 10, String(sizes));
        }
    } finally {
        await server.stop();
    }
    const both = [`${file}.1`, file].map((name) => runProgram(['simulate', name, '--requests', '--json']));
    for (const end of await Promise.all(both)) {
        assert.equal(end.code, 0, end.err);
        assert.ok(JSON.parse(end.out).requests.length >= 1);
    }
});

test('a trace that can not be written is told at the start', async () => {
    const end = await runProgram(['serve', '-m', process.env.CAIRN_TEST_MODEL, '-t', '1', '--port', '0', '--no-cache-disk', '--trace', `${folder}/none/t.jsonl`]);
    assert.equal(end.code, 1);
    assert.match(end.err, /trace can't be written/);
    await writeFile(`${folder}/bad.jsonl`, '{"cairn":2}\n');
    assert.match((await runProgram(['simulate', `${folder}/bad.jsonl`])).err, /bad\.jsonl:1: the trace is of version 2/);
});
