// The record of a request: each thing it says, in the answer, at its address, in the log.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Server, words } from './harness.mjs';

const system = (text = '') => ({ role: 'system', content: `You are careful. ${words(150, 1)} ${text}` });
const user = (seed, count = 300) => ({ role: 'user', content: words(count, seed) });
const ask = async (server, messages, fields = {}) => {
    const { json } = await server.chat(messages, { max_tokens: 4, ...fields, cairn: { explain: true } });
    return { record: json.cairn, answer: { role: 'assistant', content: json.choices[0].message.content } };
};

test('a record names the divergence, what served it, and why not more; the log and the address say the same', async () => {
    const server = await Server.start(['-c', '8192', '--cache-ram', '256M']);
    try {
        const history = [system(), user(2)];
        history.push((await ask(server, history)).answer, user(3));
        await ask(server, history);
        const { record } = await ask(server, [...history.slice(0, 3), { role: 'user', content: `${words(40, 3)} zebra` }]);
        assert.equal(record.divergence.message, 3);
        assert.equal(record.divergence.role, 'user');
        assert.ok(record.divergence.position > 400 && record.divergence.position < record.prompt_tokens);
        assert.equal(record.least, record.prompt_tokens - record.divergence.position);
        assert.equal(record.reused + record.read, record.prompt_tokens);
        assert.ok(record.reused > 0 && record.reused <= record.divergence.position);
        assert.match(record.tier, /^(slot|ram)$/);
        assert.ok(record.state_age_ms > 0);
        assert.match(record.excerpt.given, /zebra/);
        assert.doesNotMatch(record.excerpt.known, /zebra/);
        assert.equal(record.excerpt.position, record.divergence.position);
        assert.ok(record.times.restore_ms >= 0 && record.times.save_ms > 0 && record.times.read_ms > 0);
        assert.ok(record.states_taken >= 1);
        assert.ok(record.reason.word.length > 0 && record.reason.text.length > 10);

        const [latest] = (await server.get('/cairn/requests')).json.requests;
        const one = (await server.get(`/cairn/requests/${latest.id}`)).json;
        assert.deepEqual(one, latest);
        for (const key of ['prompt_tokens', 'reused', 'read', 'least', 'tier', 'divergence', 'reason', 'excerpt']) {
            assert.deepEqual(one.cairn[key], record[key], key);
        }
        const line = await server.waitForLog((event) => event.event === 'request' && event.id === latest.id);
        assert.deepEqual([line.prompt, line.reused, line.read, line.least, line.tier, line.reason, line.parts_at, line.message, line.role],
            [record.prompt_tokens, record.reused, record.read, record.least, record.tier, record.reason.word, record.divergence.position, 3, 'user']);
        assert.equal((await server.get('/cairn/requests/999999')).status, 404);
        assert.equal((await server.get('/cairn/requests/x')).status, 404);
    } finally {
        await server.stop();
    }
});

test('a divergence in the first message has that message\'s role, and a hint says whose habit it is', async () => {
    const server = await Server.start(['-c', '4096', '--cache-ram', '128M']);
    try {
        await ask(server, [system('Time: 12:01'), user(2, 60)]);
        const clock = (await ask(server, [system('Time: 12:02'), user(2, 60)])).record;
        assert.deepEqual([clock.divergence.message, clock.divergence.role], [0, 'system']);
        assert.match(clock.hint, /date or time/);
        const tools = ['read', 'write'].map((name) => ({ type: 'function', function: { name, description: `${name} a file`, parameters: { type: 'object', properties: {} } } }));
        await ask(server, [system(), user(2, 60)], { tools });
        const order = (await ask(server, [system(), user(2, 60)], { tools: [...tools].reverse() })).record;
        assert.equal(order.divergence.message, 0);
        assert.match(order.hint, /tools/);
        await ask(server, [user(9, 80)]);
        const first = (await ask(server, [{ role: 'user', content: `${words(70, 9)} but` }])).record;
        assert.deepEqual([first.divergence.message, first.divergence.role], [0, 'user']);
        const completion = (await server.post('/completion', { prompt: words(50, 77), n_predict: 1, cairn: { explain: true } })).json;
        assert.equal(completion.cairn.divergence.role, 'none');
    } finally {
        await server.stop();
    }
});

test('with --no-excerpts nobody reads a word of the prompts', async () => {
    const server = await Server.start(['-c', '4096', '--cache-ram', '128M', '--no-excerpts']);
    try {
        await ask(server, [system('Time: 12:01'), user(2, 60)]);
        const { record } = await ask(server, [system('Time: 12:02'), user(2, 60)]);
        assert.ok(record.divergence.position > 0);
        assert.equal(record.excerpt, undefined);
        assert.equal(record.hint, undefined);
        const { text } = await server.get('/cairn/requests');
        assert.doesNotMatch(text, /careful|river|stone/);
        assert.doesNotMatch(server.log, /careful|river|stone/);
    } finally {
        await server.stop();
    }
});

test('the counterfactual is true: with the memory it names, the tokens it names are reused', async () => {
    const run = async (ram) => {
        const server = await Server.start(['-c', '8192', '--cache-ram', String(ram)]);
        try {
            for (const seed of [2, 3, 4, 5, 6]) {
                await ask(server, [system(), user(seed, 900)]);
            }
            return (await ask(server, [system(), user(2, 900), { role: 'assistant', content: 'ok' }, user(7, 50)])).record;
        } finally {
            await server.stop();
        }
    };
    const ram = 8 << 20;
    const small = await run(ram);
    assert.match(small.reason.word, /^(evicted|thinned|no-room)$/);
    assert.ok(small.reason.position > small.reused);
    assert.match(small.reason.help, new RegExp(`^With [\\d.]+ MiB more memory \\(--cache-ram\\) ${small.reason.position} tokens would have been reused\\.$`));
    const large = await run(ram + small.reason.bytes);
    assert.ok(large.reused >= small.reason.position, JSON.stringify([small, large]));
});
