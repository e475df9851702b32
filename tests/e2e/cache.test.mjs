// The cache through the server: edited conversations are resumed, reports are true, answers are those of a server without it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, words } from './harness.mjs';

let fast;
let exact;
let off;

before(async () => {
    [fast, exact, off] = await Promise.all([
        Server.start(['-c', '8192', '--cache-ram', '1G']),
        Server.start(['-c', '8192', '--cache-ram', '1G', '--resume', 'exact']),
        Server.start(['-c', '8192', '--no-cache']),
    ]);
});

after(async () => {
    await Promise.all([fast, exact, off].map((server) => server.stop()));
});

const conversation = (name, edits = {}) => [
    { role: 'system', content: edits.system ?? `${name} ${words(150, 1)}` },
    { role: 'user', content: edits.first ?? words(600, 2) },
    { role: 'assistant', content: words(20, 3) },
    { role: 'user', content: edits.second ?? words(600, 4) },
    { role: 'assistant', content: words(20, 5) },
    { role: 'user', content: edits.third ?? words(600, 6) },
];
const EXPLAIN = { cairn: { explain: true }, ignore_eos: true };
const shape = (answer) => answer.json.choices[0].message;

// The counts of an answer agree with each other, with the record, and with the server's own log line.
async function checkCounts(server, answer) {
    const { usage, timings, cairn } = answer.json;
    assert.equal(usage.prompt_tokens_details.cached_tokens, cairn.reused);
    assert.equal(timings.cache_n, cairn.reused);
    assert.equal(timings.prompt_n, cairn.read);
    assert.equal(cairn.reused + cairn.read, usage.prompt_tokens);
    const { requests } = (await server.get('/cairn/requests')).json;
    const line = await server.waitForLog((event) => event.event === 'request' && event.id === requests[0].id);
    assert.equal(line.prompt, usage.prompt_tokens);
    assert.equal(line.reused, cairn.reused);
    assert.equal(line.read, cairn.read);
    assert.equal(line.least, cairn.least);
    assert.ok(cairn.read >= cairn.least);
    return cairn;
}

for (const mode of ['fast', 'exact']) {
    const pick = () => (mode === 'fast' ? fast : exact);

    test(`${mode}: an edit of the last message resumes just before it`, async () => {
        const server = pick();
        const first = await checkCounts(server, await server.chat(conversation(`last-${mode}`), EXPLAIN));
        assert.equal(first.tier, 'none');
        const edited = await checkCounts(server, await server.chat(conversation(`last-${mode}`, { third: words(600, 60) }), EXPLAIN));
        const known = edited.prompt_tokens - edited.least;
        // Cuts are at least 32 tokens apart, and the opener of the message before counts as shared.
        assert.ok(edited.reused >= known - 64, `reused ${edited.reused} of ${known}`);
    });

    test(`${mode}: edits destroy nothing, so going back is a hit`, async () => {
        const server = pick();
        await server.chat(conversation(`back-${mode}`), EXPLAIN);
        await server.chat(conversation(`back-${mode}`, { first: words(600, 61) }), EXPLAIN);
        const back = await checkCounts(server, await server.chat(conversation(`back-${mode}`), EXPLAIN));
        assert.ok(back.reused >= 0.95 * (back.prompt_tokens - 1), `reused ${back.reused} of ${back.prompt_tokens}`);
    });

    test(`${mode}: an edited system prompt reads what follows it`, async () => {
        const server = pick();
        await server.chat(conversation(`system-${mode}`), EXPLAIN);
        const edited = await checkCounts(server, await server.chat(conversation(`system-${mode}`, { system: `changed ${words(150, 1)}` }), EXPLAIN));
        assert.ok(edited.reused < 100);
    });
}

test('exact: every answer is that of a server without a cache, token for token', async () => {
    const steps = [{}, { third: words(600, 70) }, { second: words(600, 71) }, {}, { first: words(100, 72) }, { third: words(30, 73) }, {}];
    let reused = 0;
    for (const edits of steps) {
        const messages = conversation('equal', edits);
        const fields = { max_tokens: 16, ...EXPLAIN };
        const [warm, cold] = await Promise.all([exact.chat(messages, fields), off.chat(messages, fields)]);
        assert.deepEqual(shape(warm), shape(cold));
        assert.equal(cold.json.usage.prompt_tokens_details.cached_tokens, 0);
        reused += (await checkCounts(exact, warm)).reused;
    }
    assert.ok(reused > 0);
});

test('exact: continuing a written answer is that of a server without a cache', async () => {
    const messages = conversation('written');
    const answer = await exact.chat(messages, { max_tokens: 24, chat_template_kwargs: { enable_thinking: false } });
    const next = [...messages, shape(answer), { role: 'user', content: 'and then?' }];
    const [warm, cold] = await Promise.all([exact.chat(next, { max_tokens: 16 }), off.chat(next, { max_tokens: 16 })]);
    assert.deepEqual(shape(warm), shape(cold));
    assert.ok(warm.json.usage.prompt_tokens_details.cached_tokens > 0);
});

test('salts are walls', async () => {
    const messages = conversation('salted');
    const one = await fast.chat(messages, { cairn: { explain: true, cache_salt: 'one' } });
    const two = await fast.chat(messages, { cairn: { explain: true, cache_salt: 'two' } });
    const again = await fast.chat(messages, { cairn: { explain: true, cache_salt: 'one' } });
    assert.equal(one.json.cairn.reused, 0);
    assert.equal(two.json.cairn.reused, 0);
    assert.equal(two.json.cairn.divergence.position, 0);
    assert.ok(again.json.cairn.reused > 0);
});

test('a request can switch the cache off for itself', async () => {
    const messages = conversation('own-choice');
    await fast.chat(messages);
    const answer = await fast.chat(messages, { cairn: { resume: 'off', explain: true } });
    assert.equal(answer.json.cairn.reused, 0);
    assert.equal(answer.json.cairn.reason.word, 'off');
});

test('the key is the rendered prompt, not the JSON', async () => {
    const text = words(300, 90);
    await fast.chat([{ role: 'system', content: 'key' }, { role: 'user', content: text }]);
    const other = await fast.chat([{ content: [{ type: 'text', text: 'key' }], role: 'system', name: undefined },
        { role: 'user', content: [{ type: 'text', text, cache_control: { type: 'ephemeral' } }] }], EXPLAIN);
    assert.equal(other.json.cairn.least, 1);
});
