// Side requests between the turns of a conversation, and what clients say of their sessions: neither is needed for a
// conversation to be resumed, neither may cost it anything.
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

// Titles, suggestions, memory, selectors: prompts of their own, three kinds of them, that never come again.
function sideRequest(n) {
    return [{ role: 'system', content: `You are helper ${n % 3}. ${words(200, 7 + n % 3)}` }, { role: 'user', content: words(150 + 20 * (n % 10), 1000 + n) }];
}

for (const slots of ['1', '2']) {
    test(`ten side requests between two turns leave a conversation in its tier, with ${slots} slot(s) and little memory`, async () => {
        await withServer(['--slots', slots, '--cache-ram', '12M'], async (server) => {
            const messages = [{ role: 'system', content: words(800, 1) }];
            for (let turn = 0; turn < 5; turn++) {
                messages.push({ role: 'user', content: words(120, 100 + turn) });
                const { json } = await server.chat(messages, { max_tokens: 16, ...OFF, cairn: { explain: true } });
                const own = json.cairn;
                // after one turn a conversation looks like any other prompt: its system text is kept at least
                assert.ok(turn === 1 || own.read <= own.least + 32, `turn ${turn}: ${JSON.stringify(own)}`);
                assert.ok(turn === 0 || own.reused >= 900, `turn ${turn}: ${JSON.stringify(own)}`);
                messages.push(json.choices[0].message);
                for (let k = 0; k < 10; k++) {
                    assert.equal((await server.chat(sideRequest(turn * 10 + k), { max_tokens: 2, ...OFF })).status, 200);
                }
            }
            const { bytes } = (await server.get('/cairn/cache')).json;
            assert.ok(bytes.peak <= bytes.limit && bytes.limit === 12 * 1024 * 1024, JSON.stringify(bytes));
        });
    });
}

test('side requests at the same time as a turn leave it alone, too', async () => {
    await withServer(['--slots', '2', '--cache-ram', '24M'], async (server) => {
        const messages = [{ role: 'system', content: words(800, 1) }];
        for (let turn = 0; turn < 4; turn++) {
            messages.push({ role: 'user', content: words(120, 100 + turn) });
            const [main] = await Promise.all([server.chat(messages, { max_tokens: 16, ...OFF, cairn: { explain: true } }),
                ...[1, 2, 3, 4].map((k) => server.chat(sideRequest(turn * 10 + k), { max_tokens: 2, ...OFF }))]);
            const own = main.json.cairn;
            assert.ok(own.read <= own.least + 32, `turn ${turn}: ${JSON.stringify(own)}`);
            messages.push(main.json.choices[0].message);
        }
    });
});

test('a session, named in any way, returns to its slot where slots are equal; the prefix decides where they are not', async () => {
    await withServer(['--slots', '3', '--cache-ram', '64M'], async (server) => {
        let n = 0;
        const ask = async (messages, fields = {}, headers = {}) =>
            (await server.post('/v1/chat/completions', { messages, max_tokens: 1, temperature: 0, cairn: { explain: true }, ...fields }, { headers })).json.cairn;
        const fresh = () => [{ role: 'user', content: words(60, 500 + n++) }];
        const empty = () => server.post('/cairn/cache', { all: true }, { method: 'DELETE' });
        const ways = [[{ prompt_cache_key: 'a' }, {}], [{}, { 'x-session-id': 'b' }], [{}, { 'x-claude-code-session-id': 'c' }],
            [{}, { 'session-id': 'd' }], [{}, { 'thread-id': 'e' }], [{ metadata: { user_id: 'f' } }, {}], [{ user: 'g' }, {}]];
        for (const [fields, headers] of ways) {
            await empty();
            assert.equal((await ask(fresh(), { id_slot: 2, ...fields }, headers)).slot, 2, JSON.stringify([fields, headers]));
            await empty();
            assert.equal((await ask(fresh(), fields, headers)).slot, 2, JSON.stringify([fields, headers]));
            await empty();
            assert.equal((await ask(fresh(), { prompt_cache_key: `other ${n}` })).slot !== 2, true);
        }
        // the conversation is where it is, whatever the hint says
        await empty();
        const messages = [{ role: 'user', content: words(300, 900) }];
        assert.equal((await ask(messages, { id_slot: 1 })).slot, 1);
        const next = await ask([...messages, { role: 'assistant', content: 'yes' }, { role: 'user', content: 'go on' }], { id_slot: 0, prompt_cache_key: 'elsewhere' });
        assert.ok(next.reused >= 290, JSON.stringify(next));
        // a slot that isn't there is no mistake
        assert.equal((await server.chat(fresh(), { id_slot: 99 })).status, 200);
    });
});
