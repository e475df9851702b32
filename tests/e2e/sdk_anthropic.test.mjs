// The npm package `@anthropic-ai/sdk` drives messages, count_tokens and models, streaming and not, with tools and errors.
//
// The model's weights are random: what it says is arbitrary, so only what holds for every answer is looked at. A call is
// forced by tool_choice and by a bias on the token that opens it.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { Server, words } from './harness.mjs';

let server;
let client;
let opener; // logit_bias that makes the model open a call
const model = 'test-model';
const key = 'secret-key';
const system = [{ type: 'text', text: 'You are brief.' }];
const messages = [{ role: 'user', content: words(40, 2) }];
const tools = [{ name: 'lookup', description: 'x', input_schema: { type: 'object', properties: { on: { type: 'boolean' } }, required: ['on'], additionalProperties: false } }];

let folder;

before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cairn-sdk-'));
    await writeFile(join(folder, 'keys'), `${key}\n`, { mode: 0o600 });
    server = await Server.start(['-c', '2048', '--cache-ram', '256M', '--alias', model, '--normalize', '--api-key-file', join(folder, 'keys')]);
    client = new Anthropic({ baseURL: server.url, apiKey: key, maxRetries: 0 });
    const { tokens } = (await server.post('/tokenize', { content: '<tool_call>' }, { headers: { authorization: `Bearer ${key}` } })).json;
    assert.equal(tokens.length, 1);
    opener = { [tokens[0]]: 1000 };
});

after(async () => {
    await server.stop();
    await rm(folder, { recursive: true });
});

async function collect(stream) {
    const out = [];
    for await (const event of stream) {
        out.push(event);
    }
    return out;
}

const whole = (usage) => usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens;

test('a whole message has everything that clients look at', async () => {
    const message = await client.messages.create({ model, system, messages, max_tokens: 6, temperature: 0 });
    assert.equal(message.type, 'message');
    assert.equal(message.role, 'assistant');
    assert.match(message.id, /^msg_/);
    assert.ok(['end_turn', 'max_tokens'].includes(message.stop_reason));
    assert.ok(message.content.every((block) => block.type === 'text'));
    const { input_tokens } = await client.messages.countTokens({ model, system, messages });
    assert.equal(whole(message.usage), input_tokens);
    assert.ok(message.usage.output_tokens <= 6);
});

test('a stream has its events in order and adds up to the whole message', async () => {
    const request = { model, system, messages, max_tokens: 24, temperature: 0, thinking: { type: 'enabled', budget_tokens: 1024 } };
    const expected = await client.messages.create(request);
    const events = await collect(await client.messages.create({ ...request, stream: true }));
    assert.equal(events[0].type, 'message_start');
    assert.equal(events.at(-1).type, 'message_stop');
    assert.equal(events.at(-2).type, 'message_delta');
    assert.equal(events.at(-2).delta.stop_reason, expected.stop_reason);
    let open = -1;
    let count = 0;
    for (const event of events) {
        if (event.type === 'content_block_start') {
            assert.equal(open, -1);
            open = event.index;
            assert.equal(open, count++);
        } else if (event.type === 'content_block_delta') {
            assert.equal(event.index, open);
        } else if (event.type === 'content_block_stop') {
            assert.equal(event.index, open);
            open = -1;
        }
    }
    assert.equal(open, -1);
    assert.equal(count, expected.content.length);
    assert.equal(expected.content[0].type, 'thinking');
    assert.ok(expected.content[0].signature.length > 0);
    const final = await client.messages.stream(request).finalMessage();
    assert.deepEqual(final.content, expected.content);
    assert.ok(final.usage.cache_read_input_tokens > 0);
    assert.equal(whole(final.usage), whole(expected.usage));
});

test('thinking that is to be omitted has a signature and no text, and comes back as it was', async () => {
    const request = { model, system, messages, max_tokens: 24, temperature: 0, thinking: { type: 'adaptive', display: 'omitted' } };
    const shown = await client.messages.create({ ...request, thinking: { type: 'adaptive', display: 'summarized' } });
    assert.ok(shown.content[0].thinking.length > 0);
    const message = await client.messages.create(request);
    assert.equal(message.content[0].type, 'thinking');
    assert.equal(message.content[0].thinking, '');
    assert.ok(message.content[0].signature.length > 0);
    assert.equal(message.usage.output_tokens, shown.usage.output_tokens);
    const events = await collect(await client.messages.create({ ...request, stream: true }));
    assert.ok(!events.some((event) => event.delta?.type === 'thinking_delta'));
    assert.ok(events.some((event) => event.delta?.type === 'signature_delta'));
    const streamed = await client.messages.stream(request).finalMessage();
    assert.deepEqual(streamed.content, message.content);
    const next = await client.messages.create({ ...request, max_tokens: 2, messages: [...messages, { role: 'assistant', content: message.content }, { role: 'user', content: 'go on' }] });
    assert.equal(next.type, 'message');
});

test('a forced call comes whole and in deltas, and its result is taken', async () => {
    const request = { model, system, messages, tools, tool_choice: { type: 'any', disable_parallel_tool_use: true }, max_tokens: 80, temperature: 0, logit_bias: opener };
    const message = await client.messages.create(request);
    assert.equal(message.stop_reason, 'tool_use');
    const call = message.content.at(-1);
    assert.equal(call.type, 'tool_use');
    assert.equal(call.name, 'lookup');
    assert.match(call.id, /^toolu_/);
    assert.equal(typeof call.input.on, 'boolean');
    const events = await collect(await client.messages.create({ ...request, stream: true }));
    const json = events.filter((event) => event.delta?.type === 'input_json_delta').map((event) => event.delta.partial_json).join('');
    assert.deepEqual(JSON.parse(json), call.input);
    const next = await client.messages.create({
        model, system, tools, max_tokens: 3, temperature: 0,
        messages: [...messages, { role: 'assistant', content: message.content },
            { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: [{ type: 'text', text: 'off' }] }, { type: 'text', text: 'go on' }] }],
    });
    assert.ok(whole(next.usage) > whole(message.usage));
    assert.ok(next.usage.cache_read_input_tokens > 0);
});

test('a stop sequence ends the message and is named', async () => {
    const free = await client.messages.create({ model, messages, max_tokens: 30, temperature: 0, ignore_eos: true });
    const { text } = free.content[0];
    const at = Math.floor(text.length / 2);
    const stop = text.slice(at, at + 4);
    const message = await client.messages.create({ model, messages, max_tokens: 30, temperature: 0, ignore_eos: true, stop_sequences: ['never-there', stop] });
    assert.equal(message.stop_reason, 'stop_sequence');
    assert.equal(message.stop_sequence, stop);
    assert.equal(message.content[0]?.text ?? '', text.slice(0, text.indexOf(stop)));
});

test('what is read up to the client\'s last mark is told apart, and read back from the cache', async () => {
    const marked = [{ type: 'text', text: `Rules: ${words(200, 31)}`, cache_control: { type: 'ephemeral' } }, { type: 'text', text: `Today: ${words(300, 32)}` }];
    const one = await client.messages.create({ model, system: marked, messages, max_tokens: 1 });
    assert.ok(one.usage.cache_creation_input_tokens > 150);
    const other = [marked[0], { type: 'text', text: `Tomorrow: ${words(300, 33)}` }];
    const two = await client.messages.create({ model, system: other, messages, max_tokens: 1, cairn: { explain: true } });
    assert.ok(two.usage.cache_read_input_tokens >= one.usage.cache_creation_input_tokens - 16, JSON.stringify([one.usage, two.usage]));
    assert.equal(two.cairn.reused, two.usage.cache_read_input_tokens);
});

test('with --normalize a billing line is not in the prompt, and said to be dropped', async () => {
    const line = (version) => ({ type: 'text', text: `x-anthropic-billing-header: cc_version=${version}; cc_entrypoint=cli;` });
    const plain = await client.messages.countTokens({ model, system, messages });
    for (const version of ['2.1.332.abc', '2.1.332.def']) {
        const { input_tokens } = await client.messages.countTokens({ model, system: [line(version), ...system], messages });
        assert.equal(input_tokens, plain.input_tokens);
    }
    const message = await client.messages.create({ model, system: [line('1'), ...system], messages, max_tokens: 1, cairn: { explain: true } });
    assert.deepEqual(message.cairn.notes.map((note) => [note.rule, note.done]), [['claude-billing', 'dropped']]);
    assert.ok(server.lines.some((event) => event.event === 'volatile' && event.rule === 'claude-billing'));
});

test('system messages among the messages, unknown betas and fields are taken', async () => {
    const message = await client.beta.messages.create({
        model, max_tokens: 2, betas: ['unknown-beta-2030-01-01'], unknown_field: { a: 1 }, context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
        metadata: { user_id: 'u' }, output_config: { effort: 'medium' }, thinking: { type: 'adaptive', display: 'omitted' },
        messages: [{ role: 'user', content: 'one' }, { role: 'system', content: [{ type: 'text', text: 'The date has changed.' }] }, { role: 'user', content: 'two' }],
    });
    assert.equal(message.type, 'message');
});

test('errors are the classes that the package knows', async () => {
    const bad = (fields) => client.messages.create({ model, messages, max_tokens: 4, ...fields });
    await assert.rejects(bad({ max_tokens: undefined }), (error) => error instanceof Anthropic.BadRequestError && error.error.error.type === 'invalid_request_error');
    await assert.rejects(bad({ messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: '' } }] }] }),
        (error) => error instanceof Anthropic.BadRequestError && /messages\[0\]\.content\[0\]\.type/.test(error.message));
    await assert.rejects(bad({ messages: [{ role: 'user', content: words(3000, 1) }] }),
        (error) => error instanceof Anthropic.BadRequestError && /prompt is too long: \d+ tokens > 2048 maximum/.test(error.message));
    const stranger = new Anthropic({ baseURL: server.url, apiKey: 'wrong', maxRetries: 0 });
    await assert.rejects(stranger.messages.create({ model, messages, max_tokens: 4 }), (error) => error instanceof Anthropic.AuthenticationError && error.error.error.type === 'authentication_error');
    await assert.rejects(client.get('/v1/messages/batches'), (error) => error instanceof Anthropic.NotFoundError && error.error.type === 'error');
    const bearer = new Anthropic({ baseURL: server.url, apiKey: null, authToken: key, maxRetries: 0 });
    assert.equal((await bearer.messages.create({ model, messages, max_tokens: 1 })).type, 'message');
});

test('a thread is refused in the way that makes clients send everything', async () => {
    const response = await server.post('/v1/messages?beta=true', { model, messages, max_tokens: 4, thread: { type: 'continue', previous_message_id: 'msg_1' } }, { headers: { 'x-api-key': key } });
    assert.equal(response.status, 400);
    assert.equal(response.json.type, 'error');
    assert.deepEqual(response.json.error.details, { error_code: 'thread_unsupported_request', unsupported: ['thread'] });
});

test('the tool runner goes several turns, threads or not', async () => {
    let calls = 0;
    const runner = client.beta.messages.toolRunner({
        model, max_tokens: 60, max_iterations: 2, temperature: 0, logit_bias: opener, messages: [{ role: 'user', content: 'call it' }],
        tool_choice: { type: 'any', disable_parallel_tool_use: true },
        tools: [{ type: 'custom', name: 'lookup', description: 'x', input_schema: tools[0].input_schema, run: () => { calls++; return 'done'; }, parse: (input) => input }],
    });
    const seen = await collect(runner);
    assert.ok(seen.length >= 1);
    assert.ok(calls >= 1);
});

test('models are listed', async () => {
    const list = await client.models.list();
    assert.equal(list.data[0].id, model);
    const one = await client.models.retrieve(model);
    assert.equal(one.type, 'model');
    assert.equal(one.display_name, model);
    assert.ok(Date.parse(one.created_at) > 0);
});

test('HEAD of any path is 200 or 404, without a body', async () => {
    for (const path of ['/', '/api/hello', '/v1/messages', '/v1/models']) {
        const response = await fetch(server.url + path, { method: 'HEAD', headers: { 'x-api-key': key } });
        assert.ok([200, 404].includes(response.status), `${path} ${response.status}`);
        assert.equal(await response.text(), '');
    }
});
