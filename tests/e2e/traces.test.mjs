// The recorded sessions of real clients, over HTTP, against a real server: what each request reuses.
//
// The traces are shortened (shape_trace.mjs), the answers are the recorded ones (--script), so every conversation goes
// on as it did. Asserted for each request: it reads at most 5 % more than a perfect cache must, and one batch where a path parts for
// the first time at a place that nothing announces; and in sum at most 1.5 % of all prompt tokens more.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Server } from './harness.mjs';
import { answerOf, readTrace } from './shape_trace.mjs';

const BATCH_TOKENS = 512;
const ONE_WORD_IN = Number(process.env.CAIRN_TEST_TRACE_WORDS);

// The response's id, streamed or whole.
function idOf(text) {
    const found = /"id":"(resp_[^"]+)"/.exec(text);
    return found ? found[1] : null;
}

function bodyOf(entry, ids) {
    const body = { ...entry.body };
    for (const field of ['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'stop', 'stop_sequences']) {
        delete body[field];
    }
    if (entry.path.startsWith('/v1/messages')) {
        body.max_tokens = 4096;
    }
    if (body.previous_response_id !== undefined) {
        body.previous_response_id = ids.get(body.previous_response_id);
    }
    return body;
}

async function send(server, entry, ids) {
    const answer = await server.post(entry.path, bodyOf(entry, ids));
    assert.equal(answer.status, 200, `${entry.session} ${entry.turn}: ${answer.text.slice(0, 300)}`);
    if (entry.path === '/v1/responses') {
        ids.set(entry.resp?.id, idOf(answer.text));
    }
}

// Replay one trace; gives a row for each request that generated something.
async function replay(name, args) {
    const folder = await mkdtemp(join(tmpdir(), 'cairn-trace-'));
    const entries = readTrace(name, ONE_WORD_IN);
    const generating = entries.filter((entry) => !entry.path.includes('count_tokens'));
    const lines = generating.map((entry) => JSON.stringify({ answer: answerOf(entry.resp, entry.body), times: 1 }));
    await writeFile(join(folder, 'script.jsonl'), `${lines.join('\n')}\n`);
    const server = await Server.start(['-c', '65536', '--cache-ram', '2G', '--script', join(folder, 'script.jsonl'), ...args]);
    try {
        const ids = new Map();
        const rows = [];
        for (const entry of entries) {
            await send(server, entry, ids);
            if (entry.path.includes('count_tokens')) {
                continue;
            }
            await server.waitForLog(() => server.requests().length > rows.length);
            rows.push({ ...server.requests()[rows.length], entry });
        }
        return rows;
    } finally {
        await server.stop();
        await rm(folder, { recursive: true });
    }
}

const name = process.env.CAIRN_TEST_TRACE;

test(`${name}: no request reads beyond 5 % over least`, async () => {
    const rows = await replay(name, []);
    const sum = (field) => rows.reduce((total, row) => total + row[field], 0);
    console.log(`${name}: ${rows.length} requests, ${sum('prompt')} tokens, ${sum('read')} read, ${sum('least')} least, ${sum('recalled')} recalled`);
    const told = (row) => `${row.entry.session} ${row.entry.turn} ${row.entry.kind}: prompt ${row.prompt} read ${row.read} least ${row.least} ${row.tier} ${row.reason}`;
    for (const row of rows.filter((one) => one.read > 1.05 * one.least + BATCH_TOKENS / 2)) {
        console.log(`  ${told(row)}`);
    }
    assert.equal(rows.filter((row) => row.read > 1.05 * row.least + BATCH_TOKENS).map(told).join('\n'), '');
    assert.ok(sum('read') - sum('least') <= 0.015 * sum('prompt'), `${sum('read')} read, ${sum('least')} least`);
});
