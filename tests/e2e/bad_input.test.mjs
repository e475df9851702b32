// Bad input: a clear message in OpenAI's error shape, the right status, and a server that goes on with its cache intact.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, words } from './harness.mjs';

let server;
const GOOD = [{ role: 'system', content: words(60, 3) }, { role: 'user', content: words(120, 4) }];

before(async () => {
    server = await Server.start(['-c', '2048', '--body-max', '200K', '--cache-ram', '256M']);
    const first = await server.chat(GOOD);
    assert.equal(first.status, 200);
});

after(async () => {
    await server.stop();
});

// The error's shape, and that the cache still knows the good conversation.
async function refused(response, status, pattern, param) {
    assert.equal(response.status, status, response.text);
    const error = response.json.error;
    assert.equal(typeof error.message, 'string');
    assert.equal(typeof error.type, 'string');
    assert.ok('code' in error && 'param' in error);
    assert.match(error.message, pattern);
    if (param !== undefined) {
        assert.equal(error.param, param);
    }
    const again = await server.chat(GOOD);
    assert.equal(again.status, 200);
    assert.ok(again.json.usage.prompt_tokens_details.cached_tokens > 0, 'the cache was lost');
}

test('malformed JSON is refused with line and column', async () => {
    await refused(await server.post('/v1/chat/completions', '{\n "messages": [\n  {"role" "user"}\n]}'), 400, /line 3, column \d+/);
});

test('an empty body is refused', async () => {
    await refused(await server.post('/v1/chat/completions', ''), 400, /empty/);
});

test('a body that is no object is refused', async () => {
    await refused(await server.post('/v1/chat/completions', '[1]'), 400, /must be a JSON object, not an array/);
});

test('hostile nesting is refused quickly', async () => {
    await refused(await server.post('/v1/chat/completions', `{"messages":${'['.repeat(50000)}`), 400, /nested more than/);
});

test('wrong types are refused with the field', async () => {
    const wrong = { temperature: 'hot', top_p: [], max_tokens: {}, stream: 'yes', stop: 5, seed: 'x', logit_bias: 3, n: 'one', stream_options: 1 };
    for (const [field, value] of Object.entries(wrong)) {
        const response = await server.chat(GOOD, { [field]: value });
        assert.equal(response.status, 400, field);
        assert.equal(response.json.error.param, field);
    }
    await refused(await server.chat('hello'), 400, /messages must be an array/, 'messages');
});

test('values out of range are refused with the range', async () => {
    await refused(await server.chat(GOOD, { top_p: 3 }), 400, /between 0 and 1/, 'top_p');
});

test('missing and empty messages are refused', async () => {
    await refused(await server.post('/v1/chat/completions', {}), 400, /messages is missing/, 'messages');
    await refused(await server.chat([]), 400, /messages is empty/, 'messages');
});

test('an unknown role is refused with its place', async () => {
    await refused(await server.chat([...GOOD, { role: 'wizard', content: 'x' }]), 400, /role/, 'messages[2].role');
});

test('too many choices are refused clearly, and embeddings in the shape of the API', async () => {
    await refused(await server.chat(GOOD, { n: 1000 }), 400, /n must be/, 'n');
    await refused(await server.chat(GOOD, { n: 0 }), 400, /n must be/, 'n');
    await refused(await server.post('/v1/embeddings', { model: 'x', input: 'a' }), 400, /no embeddings/, 'model');
});

test('a prompt longer than the context gets 400 with both numbers and the text that makes clients compact', async () => {
    const response = await server.chat([{ role: 'user', content: words(4000, 9) }]);
    await refused(response, 400, /maximum context length is 2048 tokens/);
    assert.equal(response.json.error.code, 'context_length_exceeded');
    assert.equal(response.json.error.n_ctx, 2048);
    assert.ok(response.json.error.n_prompt_tokens > 2048);
    assert.match(response.json.error.message, new RegExp(String(response.json.error.n_prompt_tokens)));
});

test('a body over the limit gets 413', async () => {
    await refused(await server.post('/v1/chat/completions', JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(300000) }] })), 413, /limit/);
});

test('an unknown route gets 404 and a wrong method 405 with Allow', async () => {
    await refused(await server.post('/v1/nothing', {}), 404, /no \/v1\/nothing/);
    const response = await server.post('/v1/chat/completions', undefined, { method: 'PUT' });
    await refused(response, 405, /use POST/);
    assert.equal(response.headers.get('allow'), 'POST');
});

const BODY = '{"messages":[{"role":"user","content":"hi"}],"max_tokens":1}';

for (const [name, head] of [
    ['Content-Length together with Transfer-Encoding', `Content-Length: ${BODY.length}\r\nTransfer-Encoding: chunked`],
    ['two different Content-Lengths', `Content-Length: ${BODY.length}\r\nContent-Length: 3`],
    ['a blank before the colon of Content-Length', `Content-Length : ${BODY.length}`],
    ['a negative Content-Length', 'Content-Length: -5'],
    ['an unknown Transfer-Encoding', 'Transfer-Encoding: gzip'],
]) {
    test(`${name} gets 400 and the connection is closed`, async () => {
        const smuggled = 'GET /health HTTP/1.1\r\nHost: a\r\n\r\n';
        const text = await server.raw(`POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n${head}\r\n\r\n${BODY}${smuggled}`);
        assert.match(text, /^HTTP\/1\.1 400/);
        // (libmicrohttpd itself answers a negative length, and writes that answer's head twice.)
        assert.ok(!text.includes('HTTP/1.1 200'), 'the rest must not be read as a second request');
    });
}

test('the token routes refuse what they can not use', async () => {
    await refused(await server.post('/tokenize', {}), 400, /content is missing/, 'content');
    await refused(await server.post('/detokenize', { tokens: [1, 'x'] }), 400, /tokens\[1\]/);
    await refused(await server.post('/detokenize', { tokens: [999999999] }), 400, /tokens\[0\]/);
    await refused(await server.post('/apply-template', { messages: [] }), 400, /messages/);
    await refused(await server.post('/v1/completions', {}), 400, /prompt is missing/, 'prompt');
    await refused(await server.post('/v1/completions', { prompt: ['a', 1.5] }), 400, /token id/, 'prompt[1]');
    await refused(await server.post('/v1/completions', { prompt: '' }), 400, /empty/, 'prompt');
});

test('grammars and schemas that would never come to an end are refused, and the server lives', async () => {
    const doubling = ['root ::= r0', ...Array.from({ length: 64 }, (_, i) => `r${i} ::= r${i + 1} | r${i + 1}`), 'r64 ::= "a"'].join('\n');
    for (const [grammar, pattern] of [
        ['root ::= "a"{5,3}', /^grammar: line 1, column 13: a repetition's most is less than its least/],
        [`root ::= ${'('.repeat(100000)}`, /groups are nested deeper/],
        [doubling, /too many ways/],
        ['root ::= a\na ::= b a "x" | "y"\nb ::= c\nc ::= "c" |', /the rule a can begin with itself/],
        ['root ::= "a" b', /line 1, column 14: there is no rule named b/],
    ]) {
        await refused(await server.post('/v1/completions', { prompt: 'x', grammar }), 400, pattern, 'grammar');
        await refused(await server.chat(GOOD, { grammar }), 400, pattern, 'grammar');
    }
    const loop = { allOf: [{ $ref: '#/d/a' }], d: { a: { $ref: '#/d/a' } } };
    const short = { type: 'string', minLength: 5, maxLength: 3 };
    for (const [schema, pattern] of [[loop, /leads to itself/], [short, /minLength is more than maxLength/]]) {
        await refused(await server.post('/completion', { prompt: 'x', json_schema: schema }), 400, pattern, 'json_schema');
        await refused(await server.chat(GOOD, { response_format: { type: 'json_schema', json_schema: { schema } } }), 400, pattern, 'response_format.json_schema.schema');
        const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: { a: schema }, d: loop.d } } }];
        await refused(await server.chat(GOOD, { tools }), 400, pattern, 'tools[0].function.parameters');
    }
});

test('references in a long chain within the limit are answered', async () => {
    const d = Object.fromEntries(Array.from({ length: 380 }, (_, i) => [i, { type: 'array', items: { $ref: `#/d/${i + 1}` } }]));
    const schema = { $ref: '#/d/0', d: { ...d, 380: { type: 'null' } } };
    const answer = await server.chat(GOOD, { max_tokens: 1, response_format: { type: 'json_schema', json_schema: { schema } } });
    assert.equal(answer.status, 200, answer.text);
    const longer = { ...schema, d: { ...schema.d, 380: { type: 'array', items: { $ref: '#/d/400' } }, ...Object.fromEntries(Array.from({ length: 30 }, (_, i) => [400 + i, { type: 'array', items: { $ref: `#/d/${401 + i}` } }])), 430: {} } };
    await refused(await server.chat(GOOD, { response_format: { type: 'json_schema', json_schema: { schema: longer } } }), 400, /levels deep/);
});

test('objects with very many keys, and arguments nested deep, are refused at once', async () => {
    const keys = Object.fromEntries(Array.from({ length: 12000 }, (_, i) => [`k${i}`, 0]));
    await refused(await server.chat(GOOD, { x: keys }), 400, /too many keys/);
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: `{"a":${'['.repeat(50000)}` } };
    await refused(await server.chat([...GOOD, { role: 'assistant', content: null, tool_calls: [call] }, { role: 'tool', tool_call_id: 'c', content: 'r' }]), 400, /nested deeper than 128/, 'messages[2].tool_calls[0].function.arguments');
});

test('unknown fields are accepted', async () => {
    const response = await server.chat(GOOD, { user: 'u', metadata: { a: [1] }, store: true, parallel_tool_calls: true, foo: null });
    assert.equal(response.status, 200);
});
