// The shared tier through two servers: what one has read the other resumes; trouble is said once, and answers stay right.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Server, freePort, metric, runProgram, words } from './harness.mjs';

const SETTINGS = ['-c', '8192', '--cache-ram', '256M', '--resume', 'exact', '--cache-shared-deadline', '20000'];
const EXPLAIN = { cairn: { explain: true }, ignore_eos: true };
let root;
let redis;
let url;
let key;

// A redis-server that keeps nothing.
async function startRedis(port) {
    const child = spawn('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', root, '--requirepass', 'sesame'],
        { stdio: 'ignore' });
    child.on('error', (error) => assert.fail(`redis-server (the package of that name) can't be started: ${error}`));
    for (;;) {
        const open = await new Promise((resolve) => {
            const socket = net.connect(port, '127.0.0.1', () => { socket.destroy(); resolve(true); });
            socket.on('error', () => resolve(false));
        });
        if (open) {
            return child;
        }
        assert.equal(child.exitCode, null);
    }
}

const stopRedis = (child) => new Promise((resolve) => { child.on('close', resolve); child.kill('SIGKILL'); });

before(async () => {
    root = await mkdtemp(path.join(tmpdir(), 'cairn-shared-'));
    const port = await freePort();
    redis = await startRedis(port);
    url = `redis://:sesame@127.0.0.1:${port}`;
    key = path.join(root, 'key');
    await writeFile(key, '7'.repeat(64), { mode: 0o600 });
});
after(async () => {
    await stopRedis(redis);
    await rm(root, { recursive: true, force: true });
});

const start = (args = [], env = {}) => Server.start([...SETTINGS, '--cache-shared-key', key, ...args], { CAIRN_CACHE_SHARED: url, ...env });
const answerOf = (answer) => answer.json.choices[0].message.content;
const shared = async (server) => (await server.get('/cairn/cache')).json.shared;

// Until all that the server holds has been sent.
async function sent(server) {
    for (;;) {
        const state = await shared(server);
        if (!state.waiting && state.points > 0) {
            return state;
        }
    }
}

const messages = (name) => [{ role: 'system', content: `${name} ${words(150, 1)}` }, { role: 'user', content: words(400, 2) }];

test('a conversation read on one server is resumed on the other, with the answer of a fresh one', async () => {
    const [a, b, fresh] = await Promise.all([start(), start(), Server.start(['-c', '8192', '--no-cache'])]);
    try {
        const talk = messages('one');
        const first = await a.chat(talk, EXPLAIN);
        assert.equal((await a.newest()).tier, 'none');
        await sent(a);
        talk.push(first.json.choices[0].message, { role: 'user', content: words(60, 3) });
        const [second, cold] = await Promise.all([b.chat(talk, EXPLAIN), fresh.chat(talk, EXPLAIN)]);
        assert.equal(answerOf(second), answerOf(cold));
        const record = await b.newest();
        assert.equal(record.tier, 'shared');
        assert.ok(record.reused >= 512, JSON.stringify(record));
        const state = await shared(b);
        assert.ok(state.on && state.works && state.found === 1 && state.fetched > 1 && state.failures === 0, JSON.stringify(state));
        assert.match((await b.get('/metrics')).text, /^cairn_shared_found_total 1$/m);
        assert.match(b.started(), /^shared +redis:\/\/127\.0\.0\.1:\d+, kept for 24 h$/m, 'the password is not shown');
        assert.ok(!b.log.includes('sesame'));

        // Forgotten on one, forgotten on both.
        assert.equal((await a.post('/cairn/cache', undefined, { method: 'DELETE' })).status, 200);
        while ((await shared(a)).waiting) {
            // the marker is on its way
        }
        await b.stop();
        const c = await start();
        try {
            await c.chat(talk, EXPLAIN);
            assert.equal((await c.newest()).tier, 'none');
        } finally {
            await c.stop();
        }
    } finally {
        await Promise.all([a.stop(), b.stop(), fresh.stop()]);
    }
});

test('servers with API keys share by key', async () => {
    const keys = path.join(root, 'api-keys');
    await writeFile(keys, 'alice\nbob\n', { mode: 0o600 });
    const [a, b] = await Promise.all([start(['--api-key-file', keys]), start(['--api-key-file', keys])]);
    const as = (who) => ({ authorization: `Bearer ${who}` });
    const ask = (server, who) => server.post('/v1/chat/completions', { messages: messages('keys'), max_tokens: 4, temperature: 0 }, { headers: as(who) });
    try {
        await ask(a, 'alice');
        while (await metric(a, 'shared_waiting', as('alice')) !== 0) {
            // what alice said is on its way
        }
        assert.ok(await metric(a, 'shared_points_total', as('alice')) > 0);
        await ask(b, 'bob');
        assert.equal((await b.newest(as('bob'))).tier, 'none');
        await ask(b, 'alice');
        assert.equal((await b.newest(as('alice'))).tier, 'shared');
    } finally {
        await Promise.all([a.stop(), b.stop()]);
    }
});

test('a store that goes away is said once, and once when it is back', async () => {
    const port = await freePort();
    let own = await startRedis(port);
    const a = await start([], { CAIRN_CACHE_SHARED: `redis://:sesame@127.0.0.1:${port}` });
    try {
        await a.chat(messages('two'));
        await sent(a);
        await stopRedis(own);
        await a.chat(messages('three'));
        const warned = await a.waitForLog((line) => line.event === 'shared' && line.level === 'warn');
        assert.match(warned.detail, /127\.0\.0\.1/);
        await a.chat(messages('four'));
        assert.equal(a.lines.filter((line) => line.event === 'shared' && line.level === 'warn').length, 1);
        own = await startRedis(port);
        await a.waitForLog((line) => line.event === 'shared' && line.level === 'info');
        assert.ok((await shared(a)).works);
    } finally {
        await a.stop();
        await stopRedis(own);
    }
});

test('mistakes in the options are told before the model is loaded', async () => {
    const run = (args, env = {}) => runProgram(['serve', '-m', 'no-such-model.gguf', ...args], { env });
    const wrong = await run(['--cache-shared', 'ftp://x', '--cache-shared-key', key]);
    assert.equal(wrong.code, 2);
    assert.match(wrong.err, /redis:\/\//);
    const secret = await run(['--cache-shared', 'redis://x']);
    assert.equal(secret.code, 2);
    assert.match(secret.err, /--cache-shared-key/);
    const empty = path.join(root, 'empty');
    await writeFile(empty, 'short');
    const short = await run(['--cache-shared', 'redis://x', '--cache-shared-key', empty]);
    assert.equal(short.code, 1);
    assert.match(short.err, /--cache-shared-key FILE holds 32 bytes/);
    const aws = await Server.start(['--cache-shared', 's3://bucket', '--cache-shared-key', key], { AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '' })
        .then((server) => server.stop().then(() => 'started'), (error) => String(error));
    assert.match(aws, /AWS_ACCESS_KEY_ID/);
});
