// load - mixed traffic of several clients on one server, for as long as asked: no error, no leak, and how long tokens take.
//
//   DURATION=600 CLIENTS=8 SLOTS=4 SEED=1 node tests/load/load.mjs      (make load)
//
// Clients talk in conversations that grow and are edited; they stream, ask for whole answers, offer tools, hang up, read
// slowly, send side requests and mistakes, over all three APIs. Fails on any answer that should not be, on any error in the
// log, and where memory grew by more than 1 % between the middle and the end of the run (from a minute on). Prints the time
// to the first token and between tokens.
//
// Environment besides: CAIRN_TEST_PROGRAM, CAIRN_TEST_MODEL (tests/e2e/harness.mjs)
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import net from 'node:net';
import { Server, words } from '../e2e/harness.mjs';

const number = (name, usual) => Number(process.env[name] || usual);
const DURATION_MS = number('DURATION', 600) * 1000;
const CLIENTS = number('CLIENTS', 8);
const SLOTS = number('SLOTS', 4);
const SEED = number('SEED', 1);
const MEMORY_FROM_MS = 60000; // shorter runs are all warm-up
const GROWTH_MAX = 0.01;

const tools = [{ type: 'function', function: { name: 'lookup', description: 'Looks something up.', parameters: { type: 'object', properties: { on: { type: 'boolean' } }, required: ['on'], additionalProperties: false } } }];

function randomOf(seed) {
    let state = seed >>> 0;
    return (below) => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return (state >>> 8) % below;
    };
}

const seen = { counts: {}, first: [], between: [] };
const count = (name) => { seen.counts[name] = (seen.counts[name] ?? 0) + 1; };

// Read a stream; `each` is told of every piece and may end it by true. Gives its text.
async function readStream(response, each = () => false) {
    let text = '';
    const decoder = new TextDecoder();
    for await (const piece of response.body) {
        text += decoder.decode(piece, { stream: true });
        if (each(text)) {
            return text;
        }
    }
    return text;
}

async function post(server, path, body, signal) {
    return fetch(server.url + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body), signal });
}

async function good(response) {
    assert.equal(response.status, 200, response.status === 200 ? '' : await response.text());
    return response;
}

// --- kinds of requests; each gets the client's conversation and its random numbers ------------------------------------

async function stream(server, talk, random) {
    const begun = performance.now();
    let last = 0;
    const text = await readStream(await good(await post(server, '/v1/chat/completions',
        { messages: talk, stream: true, max_tokens: 10 + random(50), seed: random(1000) })), () => {
        const now = performance.now();
        if (last === 0) {
            seen.first.push(now - begun);
        } else {
            seen.between.push(now - last);
        }
        last = now;
        return false;
    });
    assert.ok(/"finish_reason":"(stop|length|tool_calls)"/.test(text), `no finish_reason: ${text.slice(-300)}`);
    assert.ok(text.endsWith('data: [DONE]\n\n'), 'a stream ended early');
    return 'and then';
}

async function whole(server, talk, random) {
    const { choices } = await (await good(await post(server, '/v1/chat/completions', { messages: talk, max_tokens: 1 + random(30) }))).json();
    return choices[0].message.content || 'nothing';
}

async function withTools(server, talk, random) {
    const body = { messages: talk, tools, max_tokens: 40, tool_choice: random(2) ? 'auto' : 'required', chat_template_kwargs: { enable_thinking: false } };
    const { choices } = await (await good(await post(server, '/v1/chat/completions', body))).json();
    assert.match(choices[0].finish_reason, /^(stop|length|tool_calls)$/);
    return 'looked up';
}

async function anthropic(server, talk, random) {
    const body = { max_tokens: 5 + random(20), stream: true, system: talk[0].content, messages: talk.slice(1) };
    const text = await readStream(await good(await post(server, '/v1/messages', body)));
    assert.ok(text.includes('event: message_stop'), `no message_stop: ${text.slice(-300)}`);
    return 'so it is';
}

async function responses(server, talk, random) {
    const body = { input: talk.map(({ role, content }) => ({ role, content })), max_output_tokens: 5 + random(20), stream: true };
    const text = await readStream(await good(await post(server, '/v1/responses', body)));
    assert.ok(/event: response\.(completed|incomplete)/.test(text), `no end: ${text.slice(-300)}`);
    return 'done';
}

async function hangUp(server, talk, random) {
    const stop = new AbortController();
    const after = random(6);
    try {
        const request = post(server, '/v1/chat/completions', { messages: talk, stream: true, max_tokens: 400, ignore_eos: true }, stop.signal);
        if (after === 0) {
            setTimeout(() => stop.abort(), random(40));
        }
        let pieces = 0;
        await readStream(await good(await request), () => ++pieces > after);
        stop.abort();
    } catch (error) {
        assert.equal(error.name, 'AbortError');
    }
    return null;
}

// The body of a chunked answer.
function unchunk(text) {
    let at = text.indexOf('\r\n\r\n') + 4;
    let body = '';
    for (;;) {
        const line = text.indexOf('\r\n', at);
        const size = parseInt(text.slice(at, line), 16);
        if (!(size > 0)) {
            return body;
        }
        body += text.slice(line + 2, line + 2 + size);
        at = line + 2 + size + 2;
    }
}

// Takes a few bytes, sleeps, takes the rest.
function slowly(server, talk, random) {
    const body = JSON.stringify({ messages: talk, stream: true, max_tokens: 200, ignore_eos: true });
    return new Promise((resolve, reject) => {
        const socket = net.connect({ port: server.port, host: '127.0.0.1', highWaterMark: 1024 });
        let text = '';
        socket.setEncoding('latin1');
        socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
        socket.on('data', (piece) => {
            text += piece;
            socket.pause();
            setTimeout(() => socket.resume(), random(30));
        });
        socket.on('error', reject);
        socket.on('close', () => {
            try {
                assert.ok(unchunk(text).endsWith('data: [DONE]\n\n'), `a slow reader's stream ended with ${JSON.stringify(text.slice(-300))}`);
                resolve(null);
            } catch (error) {
                reject(error);
            }
        });
    });
}

async function side(server, talk) {
    const messages = [{ role: 'system', content: 'Give a title.' }, { role: 'user', content: talk.at(-1).content.slice(0, 200) }];
    await (await good(await post(server, '/v1/chat/completions', { messages, max_tokens: 5 }))).json();
    return null;
}

async function mistake(server, talk, random) {
    const bodies = ['{"messages":', '{"messages":[]}', '{"messages":[{"role":"wizard","content":"x"}]}', '[]'];
    const response = await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', body: bodies[random(bodies.length)] });
    assert.equal(response.status, 400);
    await response.text();
    return null;
}

async function look(server, talk, random) {
    const paths = ['/metrics', '/slots', '/cairn/cache', '/cairn/requests', '/', '/health', '/v1/models'];
    await (await good(await fetch(server.url + paths[random(paths.length)]))).text();
    return null;
}

const KINDS = [stream, stream, stream, whole, whole, withTools, anthropic, responses, hangUp, slowly, side, mistake, look];

async function client(server, id, end) {
    const random = randomOf(SEED * 1000 + id);
    const begin = () => [{ role: 'system', content: words(120, id % 3) }, { role: 'user', content: words(20 + random(60), random(1000)) }];
    let talk = begin();
    while (performance.now() < end) {
        const kind = KINDS[random(KINDS.length)];
        const said = await kind(server, talk, random).catch((error) => {
            error.message = `client ${id}, ${kind.name}: ${error.message}`;
            throw error;
        });
        count(kind.name);
        if (said !== null) {
            talk.push({ role: 'assistant', content: said }, { role: 'user', content: words(5 + random(40), random(1000)) });
        }
        if (talk.length > 24) {
            talk = begin();
        } else if (talk.length > 6 && random(6) === 0) { // an edit: back, and on from there
            talk = [...talk.slice(0, 4 - (talk.length % 2) - 1), { role: 'user', content: words(30, random(1000)) }];
        }
    }
}

// --- memory and time --------------------------------------------------------------------------------------------------

function memoryOf(pid) {
    return Number(/^RssAnon:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
}

function quantile(list, part) {
    const sorted = [...list].sort((a, b) => a - b);
    return sorted.length === 0 ? NaN : sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
}

const ms = (list, part) => `${quantile(list, part).toFixed(1)} ms`;

async function main() {
    // What fills up and is bounded (answers, responses) gets so little that it is full long before the middle.
    const server = await Server.start(['-c', '8192', '--slots', String(SLOTS), '--cache-ram', '48M', '--queue', '64', '--answers-max', '512K', '--responses-max', '512K']);
    const samples = [];
    const begun = performance.now();
    const end = begun + DURATION_MS;
    const sampler = setInterval(() => samples.push({ at: performance.now() - begun, kb: memoryOf(server.child.pid) }), Math.min(1000, DURATION_MS / 10));
    try {
        await Promise.all(Array.from({ length: CLIENTS }, (_, id) => client(server, id, end)));
    } finally {
        clearInterval(sampler);
        for (const line of server.lines.filter((each) => each.level === 'error').slice(0, 5)) {
            console.log(JSON.stringify(line));
        }
        const exit = await server.stop();
        assert.deepEqual(exit, { code: 0, signal: null });
    }
    const errors = server.lines.filter((line) => line.level === 'error' || line.event === 'text' || line.end === 'broken');
    const part = (from, to) => quantile(samples.filter((s) => s.at >= from * DURATION_MS && s.at < to * DURATION_MS).map((s) => s.kb), 0.5);
    const middle = part(0.4, 0.6);
    const last = part(0.8, 1.01);
    console.log(`requests   ${Object.entries(seen.counts).map(([name, n]) => `${name} ${n}`).join(', ')}`);
    console.log(`first token   p50 ${ms(seen.first, 0.5)}, p99 ${ms(seen.first, 0.99)}`);
    console.log(`between tokens   p50 ${ms(seen.between, 0.5)}, p99 ${ms(seen.between, 0.99)} (${seen.between.length})`);
    console.log(`memory   ${(middle / 1024).toFixed(1)} MiB in the middle, ${(last / 1024).toFixed(1)} MiB at the end: ${((last / middle - 1) * 100).toFixed(2)} %`);
    assert.deepEqual(errors, []);
    if (DURATION_MS >= MEMORY_FROM_MS) {
        assert.ok(last <= middle * (1 + GROWTH_MAX), 'memory grew');
    }
}

await main();
