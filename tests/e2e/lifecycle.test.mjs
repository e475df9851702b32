// Clients that go away, queues, slots, keys, signals.
import assert from 'node:assert/strict';
import net from 'node:net';
import { test } from 'node:test';
import { Server, eventsOf, holdSlot, metric, runProgram, words } from './harness.mjs';

const LONG = [{ role: 'user', content: words(9000, 31) }];

// Send a request and leave when `leave` says so; nothing of the answer is read.
async function leaveDuring(server, fields, leave) {
    const body = JSON.stringify({ messages: LONG, temperature: 0, ...fields });
    const socket = net.connect(server.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    await leave(socket);
    socket.destroy();
}

async function untilQueued(server, count, headers = {}) {
    while (await metric(server, 'queue_requests', headers) !== count) {
        // they are on their way
    }
}

async function untilSlot(server, match) {
    for (;;) {
        const slots = (await server.get('/slots')).json;
        const busy = slots.find((slot) => slot.is_processing && match(slot));
        if (busy) {
            return busy;
        }
    }
}

test('an answer that was given is not shown as running, and takes no place in the queue', async () => {
    const server = await Server.start(['-c', '2048', '--cache-ram', '256M', '--queue', '0']);
    try {
        for (let i = 0; i < 20; i++) {
            const answer = await server.post('/v1/completions', { prompt: words(60, i), max_tokens: 2 });
            assert.equal(answer.status, 200, `request ${i}: ${answer.text}`);
            if (i % 2 === 0) { // else the next request follows at once
                assert.deepEqual((await server.get('/slots')).json.filter((slot) => slot.is_processing), []);
            }
        }
    } finally {
        await server.stop();
    }
});

test('a client that leaves during the read stops it within a batch, and what was read is kept', async () => {
    const server = await Server.start(['-c', '16384', '--cache-ram', '1G', '-b', '256']);
    try {
        for (const stream of [false, true]) {
            const salt = `leave-${stream}`;
            let seen = 0;
            const before = server.requests().length;
            await leaveDuring(server, { stream, cairn: { cache_salt: salt } }, async () => {
                seen = (await untilSlot(server, (slot) => slot.n_prompt_tokens_processed >= 1024)).n_prompt_tokens_processed;
            });
            const ended = await server.waitForLog((line) => line.event === 'request' && line.end === 'stopped' && server.requests().indexOf(line) >= before);
            assert.ok(ended.read < ended.prompt, 'the read went on to its end');
            assert.equal(ended.answer, 0);
            // The next request finds what was read, up to the last checkpoint.
            const again = await server.chat(LONG, { max_tokens: 1, cairn: { cache_salt: salt, explain: true } });
            assert.ok(again.json.cairn.reused >= seen - 512, `reused ${again.json.cairn.reused}, read before ${ended.read}`);
            assert.ok(again.json.cairn.reused > 0);
        }
        assert.match((await server.get('/metrics')).text, /^cairn_disconnects_total 2$/m);
    } finally {
        await server.stop();
    }
});

test('a client that leaves during the answer stops it', async () => {
    const server = await Server.start(['-c', '16384', '--cache-ram', '512M']);
    try {
        const body = JSON.stringify({ prompt: words(50, 1), max_tokens: 15000, ignore_eos: true, stream: true });
        const socket = net.connect(server.port, '127.0.0.1');
        socket.on('error', () => {});
        socket.write(`POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
        await new Promise((resolve) => socket.once('data', resolve));
        socket.destroy();
        const ended = await server.waitForLog((line) => line.event === 'request');
        assert.equal(ended.end, 'stopped');
        assert.ok(ended.answer < 15000);
        assert.equal((await server.chat([{ role: 'user', content: 'hi' }])).status, 200);
    } finally {
        await server.stop();
    }
});

test('a reader that does not read is paused and bounded, and others are served', async () => {
    const server = await Server.start(['-c', '32768', '--slots', '2', '--cache-ram', '512M']);
    try {
        const body = JSON.stringify({ prompt: words(20, 1), max_tokens: 30000, ignore_eos: true, stream: true });
        const socket = net.connect(server.port, '127.0.0.1');
        socket.on('error', () => {});
        socket.pause();
        socket.write(`POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
        await untilSlot(server, (slot) => slot.n_decoded > 50);
        for (let i = 0; i < 3; i++) {
            assert.equal((await server.chat([{ role: 'user', content: words(30, i) }])).status, 200);
        }
        socket.destroy();
        await server.waitForLog((line) => line.event === 'request' && line.end === 'stopped');
    } finally {
        await server.stop();
    }
});

test('beyond the queue there is 429 with Retry-After, and the queue is served in order', async () => {
    const server = await Server.start(['-c', '8192', '--queue', '2', '--cache-ram', '256M']);
    try {
        const ask = (n) => server.post('/v1/completions', { prompt: words(40 * n, n), max_tokens: 4, ignore_eos: true });
        const letGo = await holdSlot(server);
        const waiting = [];
        for (const n of [2, 1]) {
            waiting.push(ask(n));
            await untilQueued(server, waiting.length);
        }
        for (const refused of await Promise.all([3, 4, 5].map(ask))) {
            assert.equal(refused.status, 429);
            assert.ok(Number(refused.headers.get('retry-after')) > 0);
            assert.equal(refused.json.error.code, 'queue_full');
        }
        letGo();
        const prompts = (await Promise.all(waiting)).map((answer) => answer.json.usage.prompt_tokens);
        await server.stop();
        const done = server.requests().filter((request) => request.end === 'done');
        assert.deepEqual(done.map((request) => request.prompt), prompts);
    } finally {
        await server.stop();
    }
});

test('several slots give the answers of one', async () => {
    const [one, four] = await Promise.all([Server.start(['-c', '4096', '--cache-ram', '256M', '--resume', 'exact']),
        Server.start(['-c', '4096', '--slots', '4', '--cache-ram', '256M', '--resume', 'exact'])]);
    try {
        const prompts = [1, 2, 3, 4, 5, 6].map((n) => [{ role: 'system', content: words(100, 9) }, { role: 'user', content: words(60 * n, n) }]);
        const together = await Promise.all(prompts.map((messages) => four.chat(messages, { max_tokens: 12 })));
        for (const [index, messages] of prompts.entries()) {
            const alone = await one.chat(messages, { max_tokens: 12 });
            assert.deepEqual(together[index].json.choices[0].message, alone.json.choices[0].message);
        }
        const same = await Promise.all([1, 2, 3, 4].map(() => four.chat(prompts[2], { max_tokens: 12 })));
        for (const answer of same) {
            assert.deepEqual(answer.json.choices[0].message, same[0].json.choices[0].message);
        }
    } finally {
        await Promise.all([one.stop(), four.stop()]);
    }
});

test('many streams at once all end well', async () => {
    const server = await Server.start(['-c', '2048', '--slots', '4', '--queue', '200', '--cache-ram', '256M']);
    try {
        const streams = Array.from({ length: 60 }, (_, n) => server.chat([{ role: 'user', content: words(10, n) }], { stream: true, max_tokens: 4 }));
        for (const answer of await Promise.all(streams)) {
            const events = eventsOf(answer.text);
            assert.equal(events.at(-1), '[DONE]');
            assert.ok(events.some((event) => event.choices?.[0]?.finish_reason));
        }
    } finally {
        await server.stop();
    }
});

test('200 streams are open at once, and all end well', async () => {
    const server = await Server.start(['-c', '1024', '--slots', '8', '--queue', '300', '--cache-ram', '128M']);
    try {
        let open = 0;
        let most = 0;
        const one = async (n) => {
            const response = await fetch(`${server.url}/v1/chat/completions`, {
                method: 'POST',
                body: JSON.stringify({ messages: [{ role: 'user', content: words(6, n) }], stream: true, max_tokens: 3, ignore_eos: true }),
            });
            assert.equal(response.status, 200);
            const text = await response.text();
            assert.match(text, /data: \[DONE\]/);
        };
        const sent = Array.from({ length: 200 }, (_, n) => {
            open++;
            most = Math.max(most, open);
            return one(n).finally(() => { open--; });
        });
        await Promise.all(sent);
        assert.equal(most, 200);
        await server.stop(); // a request's line comes after its last byte: now all are there
        assert.equal(server.requests().filter((request) => request.end === 'done').length, 200);
    } finally {
        await server.stop();
    }
});

test('a flood of long prompts of one key neither delays nor keeps out a short one of another', async () => {
    const { mkdtemp, rm, writeFile } = await import('node:fs/promises');
    const folder = await mkdtemp(`${process.env.TMPDIR ?? '/tmp'}/cairn-fair-`);
    await writeFile(`${folder}/keys`, 'flood\nshort\n');
    const server = await Server.start(['-c', '8192', '--queue', '8', '--cache-ram', '256M', '--api-key-file', `${folder}/keys`]);
    try {
        const ask = (key, count, seed) => server.post('/v1/chat/completions',
            { messages: [{ role: 'user', content: words(count, seed) }], max_tokens: 1 }, { headers: { authorization: `Bearer ${key}` } });
        const headers = { authorization: 'Bearer flood' };
        const letGo = await holdSlot(server, headers);
        const flood = Array.from({ length: 8 }, (_, n) => ask('flood', 2500, n));
        await untilQueued(server, 8, headers);
        const asked = ask('short', 10, 1); // the queue is full
        assert.equal((await Promise.race(flood)).status, 429); // one of the flood gives way
        letGo();
        const short = await asked;
        assert.equal(short.status, 200, short.text);
        const before = server.requests().filter((request) => request.prompt > 1000).length;
        assert.ok(before <= 2, `${before} long prompts were read before the short one`);
        const codes = (await Promise.all(flood)).map((answer) => answer.status).sort();
        assert.deepEqual(codes, [200, 200, 200, 200, 200, 200, 200, 429]);
    } finally {
        await server.stop();
        await rm(folder, { recursive: true });
    }
});

test('a request that takes longer than --request-timeout is ended, waiting or written, and others go on', async () => {
    const server = await Server.start(['-c', '32768', '--cache-ram', '128M', '--request-timeout', '1']);
    try {
        const long = { prompt: words(10, 1), max_tokens: 30000, ignore_eos: true };
        const answers = await Promise.all([server.post('/v1/completions', long), server.post('/v1/completions', { ...long, stream: true }), server.post('/v1/completions', long)]);
        for (const answer of answers) {
            const error = answer.json?.error ?? eventsOf(answer.text).find((event) => event.error)?.error;
            assert.equal(error.code, 'request_timeout');
            assert.ok(answer.status === 504 || answer.status === 200);
        }
        assert.equal((await server.post('/v1/completions', { prompt: 'x', max_tokens: 2 })).status, 200);
    } finally {
        await server.stop();
    }
});

test('API keys let in, and share nothing', async () => {
    const { mkdtemp, rm, writeFile } = await import('node:fs/promises');
    const folder = await mkdtemp(`${process.env.TMPDIR ?? '/tmp'}/cairn-keys-`);
    await writeFile(`${folder}/keys`, '# keys\nalpha\nbeta\n');
    const server = await Server.start(['-c', '2048', '--cache-ram', '256M', '--api-key-file', `${folder}/keys`]);
    try {
        const messages = [{ role: 'user', content: words(200, 1) }];
        const ask = (key) => server.post('/v1/chat/completions', { messages, max_tokens: 1 }, { headers: key ? { authorization: `Bearer ${key}` } : {} });
        assert.equal((await ask(null)).status, 401);
        assert.equal((await ask('gamma')).status, 401);
        assert.equal((await server.get('/health')).status, 200);
        assert.equal((await server.get('/metrics')).status, 401);
        assert.equal((await ask('alpha')).json.usage.prompt_tokens_details.cached_tokens, 0);
        assert.equal((await ask('beta')).json.usage.prompt_tokens_details.cached_tokens, 0);
        assert.ok((await ask('alpha')).json.usage.prompt_tokens_details.cached_tokens > 0);
    } finally {
        await server.stop();
        await rm(folder, { recursive: true });
    }
});

test('SIGTERM lets a running answer finish, refuses new ones, and ends with 0', async () => {
    const server = await Server.start(['-c', '4096', '--cache-ram', '256M', '--drain', '200']);
    const body = JSON.stringify({ prompt: words(30, 1), n_predict: 150, ignore_eos: true, stream: true });
    const running = await fetch(`${server.url}/completion`, { method: 'POST', body }); // its answer has begun
    const end = server.stop();
    assert.equal(eventsOf(await running.text()).at(-1).tokens_predicted, 150);
    assert.deepEqual(await end, { code: 0, signal: null });
    await assert.rejects(fetch(`${server.url}/health`));
});

test('SIGINT with nothing to do ends at once, and what takes too long is cut', async () => {
    const idle = await Server.start(['-c', '2048', '--cache-ram', '256M']);
    assert.deepEqual(await idle.stop('SIGINT'), { code: 0, signal: null });
    const busy = await Server.start(['-c', '30000', '--cache-ram', '256M', '--drain', '0']);
    const running = busy.post('/v1/completions', { prompt: 'x', max_tokens: 29000, ignore_eos: true });
    await untilSlot(busy, () => true);
    const end = busy.stop();
    assert.equal((await running).status, 503);
    assert.deepEqual(await end, { code: 0, signal: null });
});

test('a port that is taken is told, with a way out', async () => {
    const server = await Server.start(['-c', '2048', '--cache-ram', '256M']);
    try {
        const second = await runProgram(['serve', '-m', process.env.CAIRN_TEST_MODEL, '--port', String(server.port), '--cache-ram', '256M', '--no-cache-disk', '-c', '2048']);
        assert.equal(second.code, 1);
        assert.match(second.err, new RegExp(`port ${server.port} .*is taken`));
        assert.match(second.err, /--port/);
    } finally {
        await server.stop();
    }
});
