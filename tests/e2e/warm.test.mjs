// POST /cairn/warm reads a prompt without answering; DELETE /cairn/cache forgets.
import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { Server, eventsOf, messageOf, words } from './harness.mjs';

const SYSTEM = `You are brief. ${words(600, 41)}`;
const TOOLS = [{ type: 'function', function: { name: 'lookup', description: words(30, 42), parameters: { type: 'object', properties: { on: { type: 'boolean' } } } } }];

async function withServer(args, body) {
    const server = await Server.start(['-c', '4096', '--cache-ram', '256M', ...args]);
    try {
        await body(server);
    } finally {
        await server.stop();
    }
}

const cached = (answer) => answer.json.usage.prompt_tokens_details.cached_tokens;

test('the first chat behind a warmed system prompt resumes at its end, also after others came between', async () => {
    await withServer([], async (server) => {
        const system = [{ role: 'system', content: SYSTEM }];
        const warm = await server.post('/cairn/warm', { messages: system, tools: TOOLS });
        assert.equal(warm.status, 200, warm.text);
        assert.equal(warm.json.object, 'cairn.warm');
        assert.equal(warm.json.cached_tokens, 0);
        assert.equal(warm.json.read_tokens, warm.json.prompt_tokens);
        const first = await server.chat([...system, { role: 'user', content: 'one' }], { tools: TOOLS });
        assert.equal(cached(first), warm.json.prompt_tokens);
        assert.ok(first.json.timings.prompt_n <= 24);
        for (const n of [1, 2, 3]) {
            await server.chat([{ role: 'user', content: words(300, n) }]);
        }
        const second = await server.chat([...system, { role: 'user', content: 'another' }], { tools: TOOLS });
        assert.ok(cached(second) >= warm.json.prompt_tokens - 8, `${cached(second)} of ${warm.json.prompt_tokens}`);
        const again = await server.post('/cairn/warm', { messages: system, tools: TOOLS });
        assert.ok(again.json.read_tokens <= 8);
        assert.equal(again.json.prompt_tokens, warm.json.prompt_tokens);
    });
});

test('a whole conversation is warmed, and its next turn extends it', async () => {
    await withServer([], async (server) => {
        const messages = [{ role: 'system', content: 'x' }, { role: 'user', content: words(300, 3) }, { role: 'assistant', content: 'yes' }, { role: 'user', content: words(50, 4) }];
        const warm = await server.post('/cairn/warm/chat', { messages, stream: true, n: 3, max_tokens: 50 });
        assert.equal(warm.json.object, 'cairn.warm', warm.text);
        const answer = await server.chat(messages);
        assert.equal(answer.json.usage.prompt_tokens, warm.json.prompt_tokens);
        assert.ok(cached(answer) >= warm.json.prompt_tokens - 8);
    });
});

test('bodies of Messages, Responses and completions warm what those will ask', async () => {
    await withServer(['--alias', 'm'], async (server) => {
        const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'x', maxRetries: 0 });
        const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'x', maxRetries: 0 });
        const tools = [{ name: 'lookup', description: words(30, 5), input_schema: { type: 'object', properties: {} }, cache_control: { type: 'ephemeral' } }];
        const one = await server.post('/cairn/warm', { system: [{ type: 'text', text: `A ${SYSTEM}` }], tools });
        const message = await anthropic.messages.create({ model: 'm', max_tokens: 1, system: [{ type: 'text', text: `A ${SYSTEM}` }], tools, messages: [{ role: 'user', content: 'hi' }] });
        assert.equal(message.usage.cache_read_input_tokens, one.json.prompt_tokens);
        const two = await server.post('/cairn/warm', { instructions: `B ${SYSTEM}` });
        const response = await openai.responses.create({ model: 'm', instructions: `B ${SYSTEM}`, input: 'hi', max_output_tokens: 1 });
        assert.equal(response.usage.input_tokens_details.cached_tokens, two.json.prompt_tokens);
        const more = await server.post('/cairn/warm/responses', { previous_response_id: response.id, input: [{ role: 'user', content: words(100, 6) }] });
        assert.equal(more.status, 200, more.text);
        const three = await server.post('/cairn/warm', { prompt: `C ${SYSTEM}` });
        const text = await server.post('/v1/completions', { prompt: `C ${SYSTEM} and more`, max_tokens: 1 });
        assert.ok(cached(text) >= three.json.prompt_tokens - 2, `${cached(text)} of ${three.json.prompt_tokens}`);
        const named = await server.post('/cairn/warm/messages', { messages: [{ role: 'user', content: words(200, 7) }] });
        const plain = await anthropic.messages.create({ model: 'm', max_tokens: 1, messages: [{ role: 'user', content: words(200, 7) }] });
        assert.ok(plain.usage.cache_read_input_tokens >= named.json.prompt_tokens - 8);
    });
});

test('what can\'t be warmed is refused with its place', async () => {
    await withServer([], async (server) => {
        const bad = async (path, body, status, param) => {
            const { status: got, json } = await server.post(path, body);
            assert.equal(got, status, JSON.stringify(json));
            assert.equal(json.error.param, param);
        };
        await bad('/cairn/warm', { messages: [] }, 400, 'messages');
        await bad('/cairn/warm', { prompt: ['a', 'b'] }, 400, 'prompt');
        await bad('/cairn/warm', {}, 400, 'messages');
        await bad('/cairn/warm/responses', {}, 400, 'input');
        await bad('/cairn/warm/chat', { messages: [{ role: 'robot', content: 'x' }] }, 400, 'messages[0].role');
        await bad('/cairn/warm/messages', { messages: [{ role: 'user', content: [{ type: 'image' }] }] }, 400, 'messages[0].content[0].type');
        await bad('/cairn/warm/poems', { messages: [] }, 404, null);
        await bad('/cairn/warm', { messages: [{ role: 'user', content: words(5000, 1) }] }, 400, 'messages');
        await bad('/cairn/warm/responses', { input: 'x', previous_response_id: 'resp_none' }, 400, 'previous_response_id');
    });
});

test('forgetting: a namespace, another one stays; then all', async () => {
    await withServer([], async (server) => {
        const messages = [{ role: 'user', content: words(300, 51) }];
        const ask = (cache_salt) => server.chat(messages, { cache_salt, cairn: { resume: 'exact' } });
        const one = await ask('one');
        await ask('two');
        const gone = await server.post('/cairn/cache', { cache_salt: 'one' }, { method: 'DELETE' });
        assert.equal(gone.status, 200, gone.text);
        assert.equal(gone.json.object, 'cairn.forgotten');
        const after = await ask('one');
        assert.equal(cached(after), 0);
        assert.deepEqual(after.json.choices[0].message, one.json.choices[0].message);
        assert.ok(cached(await ask('two')) > 0);
        await ask(undefined);
        const plain = await server.post('/cairn/cache', undefined, { method: 'DELETE' });
        assert.equal(plain.status, 200);
        assert.equal(cached(await ask(undefined)), 0);
        const all = await server.post('/cairn/cache', { all: true }, { method: 'DELETE' });
        assert.ok(all.json.states > 0 && all.json.ram_bytes > 0);
        const { held } = (await server.get('/cairn/cache')).json;
        assert.equal(held.states, 0);
        assert.equal(cached(await ask('two')), 0);
        const { requests } = (await server.get('/cairn/requests')).json;
        assert.ok(requests.slice(1).every((record) => record.cairn.excerpt === undefined));
        const wrong = await server.post('/cairn/cache', { all: 'yes' }, { method: 'DELETE' });
        assert.equal(wrong.json.error.param, 'all');
    });
});

test('forgetting takes responses that could be continued, and answers that could come back', async () => {
    await withServer([], async (server) => {
        const made = await server.post('/v1/responses', { input: words(50, 1), max_output_tokens: 4, reasoning: { effort: 'none' } });
        assert.equal(made.status, 200);
        const count = async (name) => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec((await server.get('/metrics')).text)[1]);
        assert.equal(await count('cairn_answers_kept'), 1);
        await server.post('/cairn/cache', {}, { method: 'DELETE' });
        const next = await server.post('/v1/responses', { input: 'x', previous_response_id: made.json.id });
        assert.equal(next.json.error.code, 'previous_response_not_found');
        assert.equal(await count('cairn_answers_kept'), 0);
    });
});

test('forgetting while a request runs harms nobody, and it leaves nothing', async () => {
    await withServer(['--slots', '2'], async (server) => {
        const messages = [{ role: 'user', content: words(200, 61) }];
        const fields = { max_tokens: 300, ignore_eos: true, cairn: { resume: 'exact' } };
        const before = (await server.chat(messages, fields)).json.choices[0].message;
        const body = JSON.stringify({ messages, temperature: 0, ...fields, stream: true });
        const running = await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', body }); // it has begun
        assert.equal((await server.post('/cairn/cache', { all: true }, { method: 'DELETE' })).status, 200);
        const message = messageOf(eventsOf(await running.text()).slice(0, -1));
        assert.deepEqual([message.content, message.reasoning_content], [before.content ?? '', before.reasoning_content ?? '']);
        assert.equal(cached(await server.chat(messages)), 0);
    });
});

test('with keys each forgets its own; the disk forgets, too', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'cairn-forget-'));
    try {
        await writeFile(join(folder, 'keys'), 'alpha\nbeta\n', { mode: 0o600 });
        const disk = join(folder, 'disk');
        const args = ['--api-key-file', join(folder, 'keys'), '--cache-disk', disk];
        const messages = [{ role: 'user', content: words(400, 71) }];
        const as = (key) => ({ headers: { authorization: `Bearer ${key}` } });
        const ask = (server, key) => server.post('/v1/chat/completions', { messages, max_tokens: 2, temperature: 0 }, as(key));
        await withServer(args, async (server) => {
            assert.equal(cached(await ask(server, 'alpha')), 0);
            assert.equal(cached(await ask(server, 'beta')), 0);
        });
        await withServer(args, async (server) => {
            const refused = await server.post('/cairn/cache', { all: true }, { method: 'DELETE', ...as('alpha') });
            assert.equal(refused.status, 403);
            assert.equal(refused.json.error.type, 'permission_error');
            assert.equal((await server.post('/cairn/cache', {}, { method: 'DELETE' })).status, 401);
            const gone = await server.post('/cairn/cache', {}, { method: 'DELETE', ...as('alpha') });
            assert.ok(gone.json.disk_bytes > 0, gone.text);
            assert.equal(cached(await ask(server, 'alpha')), 0);
            assert.ok(cached(await ask(server, 'beta')) > 0, 'the other key lost nothing');
        });
        assert.ok((await readdir(disk)).length > 0);
    } finally {
        await rm(folder, { recursive: true });
    }
});
