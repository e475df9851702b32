// The cairn object of a request: each of its fields does what it says.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Server, words } from './harness.mjs';

const OFF = { chat_template_kwargs: { enable_thinking: false } };

async function withServer(args, body) {
    const server = await Server.start(['-c', '4096', ...args]);
    try {
        await body(server);
    } finally {
        await server.stop();
    }
}

const cached = (answer) => answer.json.usage.prompt_tokens_details.cached_tokens;
const user = (content) => [{ role: 'user', content }];

test('explain: the answer has a cairn object, else it has none; in all APIs, whole and streamed', async () => {
    await withServer(['--cache-ram', '64M'], async (server) => {
        const bodies = [['/v1/chat/completions', { messages: user('a'), max_tokens: 2 }], ['/v1/completions', { prompt: 'a', max_tokens: 2 }],
            ['/completion', { prompt: 'a', n_predict: 2 }], ['/v1/messages', { messages: user('a'), max_tokens: 2 }], ['/v1/responses', { input: 'a', max_output_tokens: 2 }]];
        for (const [path, body] of bodies) {
            for (const stream of [false, true]) {
                const told = await server.post(path, { ...body, stream, cairn: { explain: true } });
                assert.match(told.text, /"cairn":\{"prompt_tokens":\d+,"reused":\d+,"read":\d+,"least":\d+,/, path);
                const quiet = await server.post(path, { ...body, stream, cairn: { explain: false } });
                assert.doesNotMatch(quiet.text, /"cairn":/, path);
            }
        }
    });
});

test('cache_salt: inside or beside the object it is the same namespace, and a wall to others', async () => {
    await withServer(['--cache-ram', '64M'], async (server) => {
        const messages = user(words(200, 1));
        assert.equal(cached(await server.chat(messages, { cairn: { cache_salt: 'a' } })), 0);
        assert.ok(cached(await server.chat(messages, { cache_salt: 'a' })) > 0);
        assert.equal(cached(await server.chat(messages, { cache_salt: 'b' })), 0);
        assert.equal(cached(await server.chat(messages)), 0);
    });
});

test('resume: off reads everything and keeps nothing; exact gives the answer of a cold server', async () => {
    await withServer(['--cache-ram', '64M'], async (server) => {
        const messages = user(words(200, 2));
        const off = await server.chat(messages, { ...OFF, cairn: { resume: 'off' } });
        assert.equal(cached(await server.chat(messages, { ...OFF, cairn: { resume: 'off' } })), 0);
        assert.equal(cached(await server.chat(messages, { ...OFF, cairn: { resume: 'exact' } })), 0, 'off left nothing');
        const exact = await server.chat(messages, { ...OFF, cairn: { resume: 'exact' } });
        assert.ok(cached(exact) > 0);
        assert.deepEqual(exact.json.choices[0].message, off.json.choices[0].message);
        assert.ok(cached(await server.chat(messages, { ...OFF, cairn: { resume: 'fast' } })) > 0);
    });
});

test('no_store: what is known serves, what is new is not kept, and the answer is not remembered', async () => {
    await withServer(['--cache-ram', '64M'], async (server) => {
        const held = async () => (await server.get('/cairn/cache')).json.held;
        const kept = async () => /^cairn_answers_kept (\d+)$/m.exec((await server.get('/metrics')).text)[1];
        const messages = [{ role: 'system', content: words(200, 3) }, ...user('one')];
        await server.chat(messages, OFF);
        const before = await held();
        const answers = await kept();
        const next = [...messages, { role: 'assistant', content: 'yes' }, ...user(words(200, 4))];
        const first = await server.chat(next, { ...OFF, cairn: { no_store: true } });
        assert.ok(cached(first) >= 200, 'what is known serves');
        const again = await server.chat(next, { ...OFF, cairn: { no_store: true } });
        assert.equal(cached(again), cached(first), 'what was new is not known');
        assert.equal((await held()).tokens <= before.tokens, true);
        assert.equal(await kept(), answers);
        assert.ok(cached(await server.chat(messages, OFF)) > 200, 'nothing was lost by it');
    });
});

test('a budget of nothing, or of less than a state: requests are answered, nothing is cached, and it is said once', async () => {
    const asks = [user(words(300, 1)), user(words(300, 2)), user(words(300, 1))];
    const run = async (ram) => {
        const answers = [];
        let said = 0;
        await withServer(['--cache-ram', ram], async (server) => {
            for (const ask of asks) {
                const answer = await server.chat(ask, OFF);
                assert.equal(answer.status, 200, answer.text);
                answers.push({ content: answer.json.choices[0].message.content, again: cached(answer) > 100 });
            }
            const { held } = (await server.get('/cairn/cache')).json;
            assert.equal(held.states > 0, ram === '64M', JSON.stringify(held));
            said = server.lines.filter((line) => /nothing is cached/.test(line.message ?? '')).length;
        });
        return { answers, said };
    };
    const roomy = await run('64M');
    assert.equal(roomy.said, 0);
    assert.ok(roomy.answers[2].again, 'else this test says nothing');
    for (const ram of ['0', '1', '100K']) {
        const small = await run(ram);
        assert.equal(small.said, 1, ram);
        assert.ok(!small.answers[2].again, ram);
        assert.deepEqual(small.answers.map((answer) => answer.content), roomy.answers.map((answer) => answer.content), ram);
    }
});

test('pin: a pinned system text outlives what would push it out, also when it was known before it was pinned', async () => {
    const system = [{ role: 'system', content: words(600, 5) }];
    const flood = async (server) => {
        for (let k = 0; k < 15; k++) { // each comes back once, which the system text does not: worth more
            for (const text of ['x', 'y']) {
                await server.chat([{ role: 'system', content: words(400, 50 + k) }, ...user(text)], { max_tokens: 1, ...OFF });
            }
        }
    };
    const reusedAfter = async (asks) => {
        let reused = 0;
        await withServer(['--cache-ram', '4M'], async (server) => {
            for (const cairn of asks) {
                await server.chat([...system, ...user('a')], { max_tokens: 1, ...OFF, cairn });
            }
            await flood(server);
            reused = cached(await server.chat([...system, ...user('another')], { max_tokens: 1, ...OFF }));
            const { bytes } = (await server.get('/cairn/cache')).json;
            assert.ok(bytes.peak <= bytes.limit);
        });
        return reused;
    };
    assert.ok(await reusedAfter([{ pin: true }]) >= 600);
    assert.ok(await reusedAfter([{}, { pin: true }]) >= 600);
    assert.ok(await reusedAfter([{}]) < 600, 'else this test says nothing');
});
