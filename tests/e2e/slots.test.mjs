// slots: several requests at once on one server.
import assert from 'node:assert/strict';
import test from 'node:test';
import { MODEL, Server, runProgram } from './harness.mjs';

const WORDS = 'river house function returns people value water light when not time list into old data'.split(' ');

function prose(seed, count) {
    let state = seed >>> 0;
    const words = [];
    for (let i = 0; i < count; i++) {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        words.push(WORDS[(state >>> 16) % WORDS.length]);
    }
    return words.join(' ');
}

test('sub-agents that start together with one cold prompt in front pay for it once', async () => {
    const server = await Server.start(['--slots', '4', '-c', '4096', '-b', '128']);
    try {
        const system = { role: 'system', content: prose(1, 900) };
        const ask = (seed) => server.chat([system, { role: 'user', content: prose(seed, 30) }]);
        const answers = await Promise.all([ask(11), ask(12), ask(13), ask(14)]);
        for (const answer of answers) {
            assert.equal(answer.status, 200);
        }
        await server.waitForLog(() => server.requests().length === 4);
        const requests = server.requests();
        const least = Math.min(...requests.map((r) => r.prompt));
        const read = requests.reduce((sum, r) => sum + r.read, 0);
        assert.ok(least > 900, `prompts of ${least} tokens`);
        assert.ok(read < least + 4 * 250, `${read} tokens read for four prompts of ${least}`);
        assert.equal(requests.filter((r) => r.reused > 700).length, 3);
    } finally {
        await server.stop();
    }
});

test('one that waits for another does not hold up those that need something else', async () => {
    const server = await Server.start(['--slots', '3', '-c', '4096', '-b', '128']);
    try {
        const system = { role: 'system', content: prose(2, 1500) };
        const long = server.chat([system, { role: 'user', content: 'one' }], { max_tokens: 2 });
        const joined = server.chat([system, { role: 'user', content: 'two' }], { max_tokens: 2 });
        const other = server.chat([{ role: 'user', content: 'three' }], { max_tokens: 2 });
        for (const answer of await Promise.all([long, joined, other])) {
            assert.equal(answer.status, 200);
        }
        await server.waitForLog(() => server.requests().length === 3);
        const order = server.requests().map((r) => r.prompt);
        assert.ok(order[0] < 200, `the short one ends first: ${order}`);
    } finally {
        await server.stop();
    }
});

test('a cancelled reader leaves the one that waited for it to read by itself', async () => {
    const server = await Server.start(['--slots', '2', '-c', '4096', '-b', '64']);
    try {
        const system = { role: 'system', content: prose(3, 1500) };
        const stop = new AbortController();
        const first = server.post('/v1/chat/completions', { messages: [system, { role: 'user', content: 'one' }], stream: true },
            { signal: stop.signal }).catch(() => null);
        const second = server.chat([system, { role: 'user', content: 'two' }], { max_tokens: 2 });
        setImmediate(() => stop.abort());
        await first;
        assert.equal((await second).status, 200);
    } finally {
        await server.stop();
    }
});

test('an answer flows while a long prompt is read beside it', async () => {
    const server = await Server.start(['--slots', '2', '-c', '4096', '-b', '512']);
    try {
        const response = await fetch(`${server.url}/v1/chat/completions`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ messages: [{ role: 'user', content: 'go on' }], temperature: 0, max_tokens: 3000, ignore_eos: true, stream: true }),
        });
        const reader = response.body.getReader();
        const decoder = new TextDecoder();
        let tokens = 0;
        let over = false;
        const streaming = (async () => {
            for (;;) {
                const { done, value } = await reader.read();
                if (done) {
                    over = true;
                    return;
                }
                tokens += decoder.decode(value, { stream: true }).split('data: ').length - 1;
            }
        })();
        while (tokens < 20 && !over) {
            await new Promise((resolve) => setImmediate(resolve));
        }
        assert.ok(!over, 'the answer ended at once');
        const before = tokens;
        const long = await server.chat([{ role: 'user', content: prose(4, 700) }], { max_tokens: 1 });
        assert.equal(long.status, 200);
        const between = tokens - before;
        // In whole batches of 512 it would be four or five.
        assert.ok(over || between > 20, `${between} tokens while ${long.json.usage.prompt_tokens} were read`);
        await reader.cancel();
        await streaming.catch(() => {});
    } finally {
        await server.stop();
    }
});

test('slots in one context: the server says so, exact answers stay exact, and nobody hears another', async () => {
    const server = await Server.start(['--slots', '4', '--no-repack', '-c', '2048', '-b', '128']);
    try {
        assert.match(server.started(), /slots +in one context/);
        assert.equal((await server.get('/props')).json.cairn_engine.slots_share, true);
        const ask = (seed, mode) => server.chat([{ role: 'user', content: `${prose(seed, 60)} ${prose(seed + 50, 60)}` }],
            { max_tokens: 12, ignore_eos: true, temperature: 0, cairn: { resume: mode } });
        const texts = (answers) => answers.map((answer) => JSON.stringify(answer.json.choices[0].message)); // reasoning, too
        const alone = [];
        for (const seed of [21, 22, 23, 24]) {
            alone.push(await ask(seed, 'exact'));
        }
        const together = await Promise.all([21, 22, 23, 24].map((seed) => ask(seed, 'exact')));
        assert.deepEqual(texts(together), texts(alone));
        assert.equal(new Set(texts(alone)).size, 4);
        const fast = await Promise.all([21, 22, 23, 24, 31, 32].map((seed) => ask(seed, 'fast')));
        for (const answer of fast) {
            assert.equal(answer.status, 200);
            assert.equal(answer.json.usage.completion_tokens, 12);
        }
        const exact = await Server.start(['--slots', '2', '--no-repack', '--resume', 'exact']);
        try {
            assert.match(exact.started(), /slots +each with a context of its own/);
            assert.equal((await exact.get('/props')).json.cairn_engine.slots_share, false);
        } finally {
            await exact.stop();
        }
    } finally {
        await server.stop();
    }
});

// With contexts of their own and in one context, where the tokens of several answers are computed at once.
for (const layout of [[], ['--no-repack']]) {
    test(`equal greedy requests at once give one answer: ${layout[0] ?? 'as usual'}`, async () => {
        const server = await Server.start(['--slots', '4', '-c', '2048', '-b', '128', ...layout]);
        try {
            const prompts = [prose(41, 8), prose(45, 250), prose(46, 500), ...[8, 30, 110].map((n) => `Tell me a story about ${n} things, please.`)];
            for (const content of prompts) {
                const body = { messages: [{ role: 'user', content }], temperature: 0, ignore_eos: true, max_tokens: 80 };
                const answers = await Promise.all(Array.from({ length: 8 }, () => server.post('/v1/chat/completions', body)));
                const texts = answers.map((answer) => JSON.stringify(answer.json.choices[0].message)); // reasoning, too
                assert.equal(new Set(texts).size, 1, `${content.slice(0, 40)}: ${[...new Set(texts)].join('\n')}`);
                assert.ok(texts[0].length > 100);
            }
        } finally {
            await server.stop();
        }
    });
}

test('equal greedy requests end each by its own limit, and go on when one of them is gone', async () => {
    const server = await Server.start(['--slots', '4', '-c', '2048', '-b', '128']);
    try {
        const body = { prompt: prose(47, 90), temperature: 0, ignore_eos: true, return_tokens: true };
        const ask = async (count) => (await server.post('/completion', { ...body, n_predict: count })).json.tokens;
        const stop = new AbortController();
        const gone = fetch(`${server.url}/completion`, { method: 'POST', signal: stop.signal, headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ ...body, n_predict: 1500, stream: true }) });
        const reader = (await gone).body.getReader();
        await reader.read(); // it is the first, and has begun
        const others = [ask(60), ask(25), ask(60), ask(40), ask(60)];
        stop.abort();
        const tokens = await Promise.all(others);
        assert.deepEqual(tokens.map((list) => list.length), [60, 25, 60, 40, 60]);
        for (const list of tokens) {
            assert.deepEqual(list, tokens[0].slice(0, list.length));
        }
        // Another way of choosing makes another request.
        const [, biased] = await Promise.all([ask(12), server.post('/completion', { ...body, n_predict: 12, logit_bias: [[tokens[0][0], false]] })]);
        assert.equal(biased.json.tokens.length, 12);
        assert.ok(!biased.json.tokens.includes(tokens[0][0]), `${biased.json.tokens} has ${tokens[0][0]}`);
    } finally {
        await server.stop();
    }
});

test('what does not fit is refused before loading, and a prompt beyond a slot with both numbers', async () => {
    const { code, err } = await runProgram(['serve', '-m', MODEL, '--port', '0', '--slots', '64', '-c', '16000000', '--no-cache-disk']);
    assert.equal(code, 1);
    assert.match(err, /64 slots of 16000000 tokens need \d+ MiB \(weights \d+, K\/V and states \d+, computing \d+\); there is room for \d+ MiB/);
    const server = await Server.start(['--slots', '2', '-c', '512', '--flash-attn', 'off', '--swa-full']);
    try {
        assert.match(server.started(), /memory +at most .*: weights .*cache .*\n +of the slots: K\/V .*recurrent cells .*buffers /);
        const answer = await server.chat([{ role: 'user', content: prose(6, 900) }]);
        assert.equal(answer.status, 400);
        assert.match(answer.json.error.message, /\d{3,}.*512|512.*\d{3,}/);
    } finally {
        await server.stop();
    }
});

test('/props tells what the engine proved', async () => {
    const server = await Server.start(['--resume', 'exact']);
    try {
        const { json } = await server.get('/props');
        assert.equal(json.cairn_engine.exact, true);
        assert.equal(json.cairn_engine.resume, 'exact');
        assert.equal(json.cairn_engine.trim, 'never');
    } finally {
        await server.stop();
    }
});
