// The same requests on one slot and on four, with the cache and without it: the same answers, over all APIs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, eventsOf, messageOf, words } from './harness.mjs';

const USUAL = ['-c', '4096', '--resume', 'exact', '--answers-max', '0'];
const SERVERS = { 'one slot': ['--cache-ram', '256M'], 'one slot, no cache': ['--no-cache'], 'four slots': ['--slots', '4', '--cache-ram', '256M'], 'four slots, no cache': ['--slots', '4', '--no-cache'] };
const tools = [{ type: 'function', function: { name: 'lookup', parameters: { type: 'object', properties: { on: { type: 'boolean' } }, required: ['on'], additionalProperties: false } } }];
const servers = {};

before(async () => {
    await Promise.all(Object.entries(SERVERS).map(async ([name, args]) => { servers[name] = await Server.start([...USUAL, ...args]); }));
});

after(async () => {
    await Promise.all(Object.values(servers).map((server) => server.stop()));
});

const system = (seed) => ({ role: 'system', content: words(150, seed) });
const user = (count, seed) => ({ role: 'user', content: words(count, seed) });
const greedy = { temperature: 0, max_tokens: 16 };
const off = { chat_template_kwargs: { enable_thinking: false } };

// Conversations with edits, regenerations and forks in between: what a cache is tempted by.
const CHATS = [
    [system(1), user(40, 1)],
    [system(1), user(40, 1), { role: 'assistant', content: words(12, 2) }, user(20, 3)],
    [system(1), user(40, 1), { role: 'assistant', content: words(12, 2) }, user(20, 4)],
    [system(1), user(40, 9)],
    [system(1), user(40, 1), { role: 'assistant', content: words(12, 2) }, user(20, 3)],
    [system(2), user(300, 1)],
    [system(2), user(299, 1)],
    [user(5, 1)],
];

async function chat(server, messages, fields) {
    const answer = await server.chat(messages, { ...greedy, ...fields });
    assert.equal(answer.status, 200, answer.text);
    if (fields.stream) {
        const events = eventsOf(answer.text);
        const message = messageOf(events);
        return [message.content, message.reasoning_content, message.tool_calls.map((call) => call.function)];
    }
    return answer.json.choices.map(({ message, finish_reason: why, logprobs }) => [message.content ?? '', message.reasoning_content ?? '',
        (message.tool_calls ?? []).map((call) => call.function), why, logprobs?.content?.map((token) => token.token)]);
}

const REQUESTS = [
    ...CHATS.map((messages) => (server) => chat(server, messages, {})),
    ...CHATS.slice(0, 4).map((messages) => (server) => chat(server, messages, { stream: true, ...off })),
    ...CHATS.slice(0, 4).map((messages) => (server) => chat(server, messages, { temperature: 0.9, seed: 11 })),
    ...CHATS.slice(0, 3).map((messages) => (server) => chat(server, messages, { tools, tool_choice: 'required', max_tokens: 60, ...off })),
    (server) => chat(server, CHATS[0], { response_format: { type: 'json_schema', json_schema: { schema: { type: 'object', properties: { a: { enum: ['x', 'y'] } }, required: ['a'], additionalProperties: false } } }, ...off }),
    (server) => chat(server, CHATS[1], { n: 2, temperature: 1, seed: 3 }),
    (server) => chat(server, CHATS[1], { logprobs: true }),
    ...[50, 49, 400].map((count) => async (server) => (await server.post('/v1/completions', { prompt: words(count, 5), ...greedy })).json.choices[0].text),
    async (server) => (await server.post('/completion', { prompt: words(60, 5), n_predict: 12, temperature: 0 })).json.content,
    ...[1, 2].map((seed) => async (server) => (await server.post('/v1/messages', { ...greedy, system: words(150, 1), messages: [user(30, seed)] })).json.content),
    ...[1, 2].map((seed) => async (server) => (await server.post('/v1/responses', { temperature: 0, max_output_tokens: 16, instructions: words(150, 1), input: words(30, seed) })).json.output
        .map((item) => [item.type, item.content?.map((part) => part.text)])),
];

test('one after the other', async () => {
    const answers = {};
    for (const [name, server] of Object.entries(servers)) {
        answers[name] = [];
        for (const request of REQUESTS) {
            answers[name].push(await request(server));
        }
        assert.equal(server.requests().some((row) => row.reused > 0), !name.includes('no cache'), `${name}: is the cache used as said?`);
    }
    const usual = answers['one slot, no cache'];
    assert.ok(usual.length >= 25 && new Set(usual.map((answer) => JSON.stringify(answer))).size > 15, 'the answers differ from each other');
    for (const [name, list] of Object.entries(answers)) {
        assert.deepEqual(list, usual, name);
    }
});

test('all at once', async () => {
    const all = await Promise.all(Object.values(servers).map((server) => Promise.all(REQUESTS.map((request) => request(server)))));
    for (const [index, name] of Object.keys(servers).entries()) {
        assert.deepEqual(all[index], all[1], name);
    }
});
