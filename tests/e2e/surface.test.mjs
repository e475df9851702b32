// The surfaces: what clients send is understood, what they need comes back.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { Server, eventsOf, messageOf, words } from './harness.mjs';

let server;
const MESSAGES = [{ role: 'system', content: 'You are brief.' }, { role: 'user', content: words(40, 2) }];

before(async () => {
    server = await Server.start(['-c', '4096', '--cache-ram', '256M', '--alias', 'test-model']);
});

after(async () => {
    await server.stop();
});

test('health, models, props, slots answer', async () => {
    assert.deepEqual((await server.get('/health')).json, { status: 'ok' });
    const models = (await server.get('/v1/models')).json;
    assert.equal(models.object, 'list');
    assert.equal(models.data[0].id, 'test-model');
    const props = (await server.get('/props')).json;
    assert.equal(props.total_slots, 1);
    assert.equal(props.default_generation_settings.n_ctx, 4096);
    assert.match(props.chat_template, /im_start/);
    assert.equal(props.default_generation_settings.params.temperature, 0.8);
    assert.equal(props.default_generation_settings.params.top_k, 40);
    assert.equal(typeof props.bos_token, 'string');
    assert.match(props.eos_token, /^<\|/);
    assert.equal(props.modalities.vision, false);
    const slots = (await server.get('/slots')).json;
    assert.equal(slots.length, 1);
    assert.equal(slots[0].is_processing, false);
    const head = await fetch(`${server.url}/health`, { method: 'HEAD' });
    assert.equal(head.status, 200);
});

test('a whole chat answer has everything that clients look at', async () => {
    const { status, json } = await server.chat(MESSAGES, { max_tokens: 6 });
    assert.equal(status, 200);
    assert.match(json.id, /^chatcmpl-/);
    assert.equal(json.object, 'chat.completion');
    assert.equal(json.model, 'test-model');
    assert.equal(json.choices.length, 1);
    assert.equal(json.choices[0].message.role, 'assistant');
    assert.ok(['stop', 'length', 'tool_calls'].includes(json.choices[0].finish_reason));
    assert.equal(json.usage.prompt_tokens + json.usage.completion_tokens, json.usage.total_tokens);
    assert.equal(typeof json.usage.prompt_tokens_details.cached_tokens, 'number');
    for (const field of ['prompt_n', 'prompt_ms', 'cache_n', 'predicted_n', 'predicted_ms']) {
        assert.equal(typeof json.timings[field], 'number', field);
    }
    assert.equal(json.timings.prompt_n + json.timings.cache_n, json.usage.prompt_tokens);
    assert.equal(json.timings.cache_n, json.usage.prompt_tokens_details.cached_tokens);
    assert.equal(json.cairn, undefined);
});

test('a stream adds up to the whole answer and ends as clients expect', async () => {
    const fields = { max_tokens: 24, cairn: { cache_salt: 'stream' } };
    const whole = await server.chat(MESSAGES, fields);
    const { status, headers, text } = await server.chat(MESSAGES, { ...fields, stream: true, stream_options: { include_usage: true } });
    assert.equal(status, 200);
    assert.match(headers.get('content-type'), /^text\/event-stream/);
    const events = eventsOf(text);
    assert.equal(events.at(-1), '[DONE]');
    const chunks = events.slice(0, -1);
    assert.equal(chunks[0].choices[0].delta.role, 'assistant');
    const message = messageOf(chunks);
    const expected = whole.json.choices[0].message;
    assert.equal(message.content, expected.content ?? '');
    assert.equal(message.reasoning_content, expected.reasoning_content ?? '');
    const finishes = chunks.filter((chunk) => chunk.choices[0]?.finish_reason);
    assert.equal(finishes.length, 1);
    assert.equal(finishes[0].choices[0].finish_reason, whole.json.choices[0].finish_reason);
    const usage = chunks.at(-1).usage;
    assert.equal(chunks.at(-1).choices.length, 0);
    assert.equal(usage.prompt_tokens, whole.json.usage.prompt_tokens);
    assert.equal(usage.completion_tokens, whole.json.usage.completion_tokens);
    assert.ok(usage.prompt_tokens_details.cached_tokens > 0);
    for (const chunk of chunks) {
        assert.equal(chunk.object, 'chat.completion.chunk');
        assert.equal(chunk.id, chunks[0].id);
    }
});

test('without include_usage a stream has no usage', async () => {
    const events = eventsOf((await server.chat(MESSAGES, { stream: true })).text);
    assert.ok(events.every((event) => event === '[DONE]' || event.usage === undefined));
});

test('a stop text is never shown, streamed or whole', async () => {
    const long = { max_tokens: 40, cairn: { cache_salt: 'stop' } };
    const free = (await server.post('/v1/completions', { prompt: words(30, 5), temperature: 0, ...long })).json.choices[0].text;
    const at = Math.floor(free.length / 2);
    const stop = free.slice(at, at + 4);
    const expected = free.slice(0, free.indexOf(stop));
    const whole = (await server.post('/v1/completions', { prompt: words(30, 5), temperature: 0, stop: ['never-there', stop], ...long })).json;
    assert.equal(whole.choices[0].text, expected);
    assert.equal(whole.choices[0].finish_reason, 'stop');
    const stream = (await server.post('/v1/completions', { prompt: words(30, 5), temperature: 0, stop, stream: true, ...long })).text;
    assert.equal(eventsOf(stream).map((event) => event.choices?.[0]?.text ?? '').join(''), expected);
});

test('limits of all three names hold', async () => {
    for (const field of ['max_tokens', 'max_completion_tokens', 'n_predict']) {
        const { json } = await server.post('/v1/completions', { prompt: 'one two', ignore_eos: true, temperature: 0, [field]: 5 });
        assert.equal(json.usage.completion_tokens, 5, field);
        assert.equal(json.choices[0].finish_reason, 'length', field);
    }
    const { json } = await server.post('/v1/completions', { prompt: 'one two', max_tokens: 0 });
    assert.equal(json.usage.completion_tokens, 0);
    assert.equal(json.choices[0].text, '');
});

test('the same seed gives the same answer, another one another', async () => {
    const ask = async (seed) => (await server.post('/v1/completions',
        { prompt: words(20, 8), max_tokens: 24, temperature: 1.5, top_k: 0, top_p: 1, min_p: 0, ignore_eos: true, seed })).json.choices[0].text;
    const first = await ask(7);
    assert.equal(await ask(7), first);
    assert.notEqual(await ask(8), first);
});

test('logit_bias forbids and forces tokens', async () => {
    const prompt = words(20, 11);
    const tokens = (await server.post('/tokenize', { content: ' river' })).json.tokens;
    const forced = (await server.post('/v1/completions', { prompt, max_tokens: 3, temperature: 0, logit_bias: { [tokens[0]]: 1000 } })).json;
    const piece = (await server.post('/detokenize', { tokens: [tokens[0]] })).json.content;
    assert.equal(forced.choices[0].text, piece.repeat(3));
    const without = (await server.post('/v1/completions', { prompt, max_tokens: 3, temperature: 0, logit_bias: [[tokens[0], 1000], [tokens[0], false]] })).json;
    assert.notEqual(without.choices[0].text, piece.repeat(3));
});

test('tokenize, detokenize and apply-template speak as llama-server does', async () => {
    const content = 'Hello <|im_start|>w\u00f6rld \u20ac';
    const { tokens } = (await server.post('/tokenize', { content })).json;
    assert.ok(tokens.every(Number.isInteger));
    assert.equal((await server.post('/detokenize', { tokens })).json.content, content);
    const letters = (await server.post('/tokenize', { content, parse_special: false })).json.tokens;
    assert.ok(letters.length > tokens.length);
    const pieces = (await server.post('/tokenize', { content: 'Hello', with_pieces: true })).json.tokens;
    assert.equal(pieces.map((token) => token.piece).join(''), 'Hello');
    const { prompt } = (await server.post('/apply-template', { messages: MESSAGES })).json;
    assert.match(prompt, /^<\|im_start\|>system\nYou are brief\./);
    assert.match(prompt, /<\|im_start\|>assistant\n/);
    const counted = (await server.post('/tokenize', { content: prompt, add_special: true })).json.tokens.length;
    assert.equal((await server.chat(MESSAGES)).json.usage.prompt_tokens, counted);
});

test('prompts may be token ids, and echo repeats the text', async () => {
    const text = words(12, 21);
    const { tokens } = (await server.post('/tokenize', { content: text, add_special: true })).json;
    const byText = (await server.post('/v1/completions', { prompt: text, temperature: 0, max_tokens: 5, echo: true })).json;
    const byIds = (await server.post('/v1/completions', { prompt: tokens, temperature: 0, max_tokens: 5 })).json;
    assert.equal(byText.choices[0].text, text + byIds.choices[0].text);
    assert.equal(byIds.usage.prompt_tokens, tokens.length);
});

test('llama.cpp\'s own completion route answers in its shape', async () => {
    const { json } = await server.post('/completion', { prompt: words(10, 3), n_predict: 4, temperature: 0, ignore_eos: true });
    assert.equal(json.stop, true);
    assert.equal(json.stop_type, 'limit');
    assert.equal(json.tokens_predicted, 4);
    assert.equal(typeof json.content, 'string');
    assert.equal(json.index, 0);
    assert.equal(json.id_slot, 0);
    assert.equal(json.model, 'test-model');
    assert.equal(json.truncated, false);
    assert.equal(json.stopping_word, '');
    assert.equal(json.prompt, words(10, 3));
    assert.equal(json.tokens_evaluated, json.timings.prompt_n + json.timings.cache_n);
    assert.equal(json.generation_settings.temperature, 0);
    assert.equal(json.generation_settings.n_predict, 4);
    assert.deepEqual(json.tokens, []);
    const ids = (await server.post('/completion', { prompt: words(10, 3), n_predict: 4, temperature: 0, ignore_eos: true, return_tokens: true })).json.tokens;
    assert.equal((await server.post('/detokenize', { tokens: ids })).json.content, json.content);
    const word = await server.post('/completion', { prompt: words(10, 3), n_predict: 4, temperature: 0, ignore_eos: true, stop: [json.content.slice(-3)] });
    assert.equal(word.json.stop_type, 'word');
    assert.equal(word.json.stopping_word, json.content.slice(-3));
    const again = await server.post('/completion', { prompt: words(10, 3), n_predict: 4, temperature: 0, ignore_eos: true, cache_prompt: false });
    assert.equal(again.json.timings.cache_n, 0);
    assert.equal(again.json.content, json.content);
    const events = eventsOf((await server.post('/completion', { prompt: words(10, 3), n_predict: 4, temperature: 0, ignore_eos: true, stream: true })).text);
    assert.equal(events.map((event) => event.content).join(''), json.content);
    assert.equal(events.at(-1).stop, true);
});

test('a grammar holds and a JSON schema makes JSON', async () => {
    const { json } = await server.post('/v1/completions', { prompt: words(10, 4), max_tokens: 20, grammar: 'root ::= "yes" | "no"' });
    assert.ok(['yes', 'no'].includes(json.choices[0].text), json.choices[0].text);
    const schema = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'], additionalProperties: false };
    const chat = await server.chat(MESSAGES, {
        max_tokens: 60, response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
        chat_template_kwargs: { enable_thinking: false },
    });
    assert.equal(chat.status, 200, chat.text);
    if (chat.json.choices[0].finish_reason === 'stop') {
        assert.equal(typeof JSON.parse(chat.json.choices[0].message.content).ok, 'boolean');
    }
    const bad = await server.post('/v1/completions', { prompt: 'x', grammar: 'root ::= (' });
    assert.equal(bad.status, 400, bad.text);
    assert.equal(bad.json.error.message, 'grammar: line 1, column 11: ")" was expected, not the end');
    assert.equal(bad.json.error.param, 'grammar');
    const inChat = await server.chat(MESSAGES, { grammar: 'x ::= "a"' });
    assert.equal(inChat.json.error.message, 'grammar: it has no rule named root');
    assert.deepEqual(server.lines.filter((line) => line.event === 'text'), []); // nothing but its own lines in the log
});

test('completions take a JSON schema, too, and a grammar beside it counts', async () => {
    const schema = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'], additionalProperties: false };
    for (const path of ['/completion', '/v1/completions']) {
        const text = (json) => json.content ?? json.choices[0].text;
        const whole = await server.post(path, { prompt: words(10, 5), max_tokens: 60, json_schema: schema, seed: 1 });
        assert.equal(whole.status, 200, whole.text);
        assert.equal(typeof JSON.parse(text(whole.json)).ok, 'boolean');
        const both = await server.post(path, { prompt: words(10, 5), max_tokens: 20, json_schema: schema, grammar: 'root ::= "yes"' });
        assert.equal(text(both.json), 'yes');
        const bad = await server.post(path, { prompt: 'x', json_schema: { type: 'nothing' } });
        assert.equal(bad.status, 400, bad.text);
        assert.equal(bad.json.error.param, 'json_schema');
        assert.equal((await server.post(path, { prompt: 'x', json_schema: 'object' })).json.error.message, 'json_schema must be an object, not a string.');
    }
    const { json } = await server.post('/completion', { prompt: 'x', n_predict: 1, json_schema: schema });
    assert.match(json.generation_settings.grammar, /root ::=/);
});

test('tools forced by tool_choice come as calls with index and id, and nothing before them', async () => {
    const tools = ['lookup', 'other'].map((name) => ({ type: 'function', function: { name, description: 'x', parameters: { type: 'object', properties: { on: { type: 'boolean' } }, required: ['on'] } } }));
    for (const tool_choice of ['required', { type: 'function', function: { name: 'lookup' } }]) {
        const fields = { tools, tool_choice, parallel_tool_calls: false, max_tokens: 200, chat_template_kwargs: { enable_thinking: false } };
        const whole = await server.chat(MESSAGES, fields);
        assert.equal(whole.status, 200, whole.text);
        assert.equal(whole.json.choices[0].finish_reason, 'tool_calls');
        assert.equal(whole.json.choices[0].message.content, null);
        const call = whole.json.choices[0].message.tool_calls[0];
        assert.ok(call.function.name === 'lookup' || tool_choice === 'required');
        assert.equal(typeof JSON.parse(call.function.arguments).on, 'boolean');
        assert.ok(call.id.length > 0);
        const message = messageOf(eventsOf((await server.chat(MESSAGES, { ...fields, stream: true })).text).slice(0, -1));
        assert.equal(message.content, '');
        assert.equal(message.tool_calls[0].function.name, call.function.name);
        assert.ok(message.tool_calls[0].id.length > 0);
        assert.equal(message.tool_calls[0].function.arguments, call.function.arguments);
    }
});

test('a conversation with calls, results and reasoning is rendered', async () => {
    const response = await server.chat([
        ...MESSAGES,
        { role: 'assistant', content: null, reasoning_content: 'hm', tool_calls: [{ id: 'a1', type: 'function', function: { name: 'f', arguments: '{"x":1}' } }] },
        { role: 'tool', tool_call_id: 'a1', content: [{ type: 'text', text: 'done' }] },
        { role: 'user', content: [{ type: 'text', text: 'and' }, { type: 'text', text: ' now?' }] },
    ]);
    assert.equal(response.status, 200, response.text);
});

test('the metrics are those of the requests', async () => {
    const before = await server.get('/metrics');
    assert.match(before.headers.get('content-type'), /^text\/plain; version=0\.0\.4/);
    const value = (text, name) => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)[1]);
    const { json } = await server.chat([...MESSAGES, { role: 'user', content: words(30, 77) }]);
    const now = await server.get('/metrics');
    const grown = (name) => value(now.text, name) - value(before.text, name);
    assert.equal(grown('cairn_prompt_tokens_total'), json.usage.prompt_tokens);
    assert.equal(grown('cairn_prompt_tokens_reused_total'), json.usage.prompt_tokens_details.cached_tokens);
    assert.equal(grown('cairn_prompt_tokens_read_total'), json.timings.prompt_n);
    assert.equal(grown('cairn_answer_tokens_total'), json.usage.completion_tokens);
    assert.equal(value(now.text, 'cairn_queue_requests'), 0);
});

test('cairn explains on request, and lists the last requests', async () => {
    const { json } = await server.chat(MESSAGES, { cairn: { explain: true } });
    assert.equal(json.cairn.prompt_tokens, json.usage.prompt_tokens);
    assert.equal(json.cairn.reused + json.cairn.read, json.cairn.prompt_tokens);
    assert.equal(typeof json.cairn.reason.word, 'string');
    assert.ok(json.cairn.least >= 1);
    const { requests } = (await server.get('/cairn/requests')).json;
    assert.equal(requests[0].cairn.prompt_tokens, json.usage.prompt_tokens);
    const cache = (await server.get('/cairn/cache')).json;
    assert.ok(cache.bytes.now <= cache.bytes.limit);
});

test('promtool accepts the metrics, where it is installed', async (context) => {
    if (spawnSync('promtool', ['--version']).error) {
        context.skip('promtool is not installed');
        return;
    }
    const { text } = await server.get('/metrics');
    const checked = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' });
    assert.equal(checked.status, 0, checked.stdout + checked.stderr);
    assert.equal(checked.stderr, '');
});
