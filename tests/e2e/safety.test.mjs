// What a hostile or careless client can not do. Framing is in bad_input.test.mjs, keys in lifecycle.test.mjs, logs in operations.test.mjs.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { Server, words } from './harness.mjs';

let server;
const GOOD = [{ role: 'user', content: words(40, 1) }];

before(async () => {
    server = await Server.start(['-c', '2048', '--cache-ram', '128M', '--body-max', '8M', '--connections', '40']);
});

after(async () => {
    await server.stop();
});

async function goesOn() {
    assert.equal((await server.chat(GOOD, { max_tokens: 1 })).status, 200);
}

test('it listens on loopback unless told otherwise', () => {
    const port = server.port.toString(16).toUpperCase().padStart(4, '0');
    const local = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((path) => readFileSync(path, 'utf8').split('\n'))
        .map((line) => line.trim().split(/\s+/)).filter((parts) => parts[3] === '0A' && parts[1]?.endsWith(`:${port}`)).map((parts) => parts[1]);
    assert.deepEqual(local, [`0100007F:${port}`]);
});

test('no other origin is let in: there are no CORS headers, and no answer to a preflight', async () => {
    const plain = await fetch(`${server.url}/v1/models`, { headers: { origin: 'http://evil.example' } });
    await plain.text();
    const preflight = await server.post('/v1/chat/completions', undefined, { method: 'OPTIONS', headers: { origin: 'http://evil.example', 'access-control-request-method': 'POST' } });
    assert.equal(preflight.status, 405);
    for (const headers of [plain.headers, preflight.headers]) {
        assert.deepEqual([...headers.keys()].filter((name) => name.startsWith('access-control')), []);
    }
});

test('headers without end are refused', async () => {
    for (const head of [`X-Long: ${'a'.repeat(200000)}`, Array.from({ length: 20000 }, (_, n) => `X-${n}: 1`).join('\r\n')]) {
        const text = await server.raw(`GET /health HTTP/1.1\r\nHost: a\r\n${head}\r\n\r\n`, /HTTP\/1\.1 \d+/).catch((error) => error.code);
        assert.match(String(text), /HTTP\/1\.1 (400|413|431)|ECONNRESET|EPIPE|^$/);
    }
    await goesOn();
});

test('messages and tools are counted', async () => {
    const many = await server.chat(Array.from({ length: 20001 }, () => ({ role: 'user', content: 'a' })));
    assert.equal(many.status, 400);
    assert.match(many.json.error.message, /20000/);
    const tools = Array.from({ length: 1025 }, (_, n) => ({ type: 'function', function: { name: `f${n}`, parameters: { type: 'object' } } }));
    const offered = await server.chat(GOOD, { tools });
    assert.equal(offered.status, 400);
    assert.match(offered.json.error.message, /1024/);
    await goesOn();
});

test('schemas that are deep, large, circular or nonsense end in an error or an answer, soon', async () => {
    let deep = { type: 'string' };
    for (let i = 0; i < 60; i++) {
        deep = { type: 'object', properties: { a: deep }, required: ['a'] };
    }
    const wide = { type: 'object', properties: Object.fromEntries(Array.from({ length: 3000 }, (_, n) => [`p${n}`, { type: 'string' }])) };
    const loop = { $ref: '#/$defs/a', $defs: { a: { type: 'object', properties: { a: { $ref: '#/$defs/a' } } } } };
    const endless = { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/a' } } };
    for (const schema of [deep, wide, loop, endless, { type: 'string', pattern: `^(${'a?'.repeat(200)})+$` }, { type: 'unheard-of' }, { minItems: 1e9, type: 'array', items: {} }]) {
        const answer = await server.chat(GOOD, { max_tokens: 2, response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } });
        assert.ok([200, 400, 413].includes(answer.status), `${answer.status} ${answer.text.slice(0, 200)}`);
    }
    const refused = await server.chat(GOOD, { tools: [{ type: 'function', function: { name: 'f', parameters: wide } }] });
    assert.equal(refused.status, 400);
    assert.match(refused.json.error.message, /tools\[0\]\.function\.parameters: too many optional properties/);
    await goesOn();
});

test('no prompt, key or path of the server is in an error', async () => {
    const secret = 'xylophone';
    const bodies = [
        `{"messages":[{"role":"user","content":"${secret}"`,
        JSON.stringify({ messages: [{ role: 'user', content: secret }, { role: 'user', content: { text: secret } }] }),
        JSON.stringify({ messages: [{ role: 'user', content: secret }], response_format: { type: 'json_schema', json_schema: { schema: 5 } } }),
        JSON.stringify({ messages: [{ role: 'user', content: `${secret} ${words(5000, 1)}` }] }),
        JSON.stringify({ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: `data:${secret}` } }] }] }),
    ];
    for (const path of ['/v1/chat/completions', '/v1/messages', '/v1/responses']) {
        for (const body of bodies) {
            const answer = await server.post(path, body, { headers: { authorization: `Bearer ${secret}` } });
            assert.ok(answer.status >= 400, `${path} ${body.slice(0, 80)}: ${answer.status}`);
            assert.ok(!answer.text.includes(secret), answer.text);
            assert.ok(!answer.text.includes(process.cwd()) && !answer.text.includes('.gguf'), answer.text);
        }
    }
    assert.ok(!server.log.includes(secret));
});

test('connections are counted: more are turned away, and when some end others are taken', async () => {
    const open = [];
    for (let i = 0; i < 60; i++) {
        const socket = net.connect(server.port, '127.0.0.1');
        socket.on('error', () => {});
        open.push(socket);
        await new Promise((resolve) => { socket.once('connect', resolve); socket.once('close', resolve); });
    }
    for (const socket of open) {
        socket.destroy();
    }
    for (;;) {
        const answer = await server.get('/health').catch(() => null);
        if (answer?.status === 200) {
            break;
        }
    }
    await goesOn();
});
