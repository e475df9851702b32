// The npm package `openai` drives chat, completions, responses and models, streaming and not, with tools and errors.
//
// The model's weights are random: what it says is arbitrary, so only what holds for every answer is looked at. A call is
// forced by tool_choice and by a bias on the token that opens it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { Server, words } from './harness.mjs';

let server;
let client;
let opener; // logit_bias that makes the model open a call
const model = 'test-model';
const MESSAGES = [{ role: 'system', content: 'You are brief.' }, { role: 'user', content: words(40, 2) }];
const PARAMETERS = { type: 'object', properties: { on: { type: 'boolean' } }, required: ['on'], additionalProperties: false };
const OFF = { chat_template_kwargs: { enable_thinking: false }, temperature: 0 };

before(async () => {
    server = await Server.start(['-c', '2048', '--cache-ram', '256M', '--alias', model]);
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
    const { tokens } = (await server.post('/tokenize', { content: '<tool_call>' })).json;
    assert.equal(tokens.length, 1);
    opener = { [tokens[0]]: 1000 };
});

after(async () => {
    await server.stop();
});

async function collect(stream) {
    const out = [];
    for await (const event of stream) {
        out.push(event);
    }
    return out;
}

function okUsage(usage) {
    assert.equal(usage.input_tokens + usage.output_tokens, usage.total_tokens);
    assert.ok(usage.input_tokens_details.cached_tokens >= 0 && usage.input_tokens_details.cached_tokens < usage.input_tokens);
}

test('models are listed', async () => {
    const list = await client.models.list();
    assert.equal(list.data[0].id, model);
    assert.equal((await client.models.retrieve(model)).object, 'model');
    await assert.rejects(client.models.retrieve('another'), (error) => error instanceof OpenAI.NotFoundError && error.code === 'model_not_found');
});

test('chat: whole and streamed are the same answer', async () => {
    const request = { model, messages: MESSAGES, max_tokens: 12, ...OFF };
    const whole = await client.chat.completions.create(request);
    assert.equal(whole.choices[0].message.role, 'assistant');
    assert.equal(whole.usage.prompt_tokens + whole.usage.completion_tokens, whole.usage.total_tokens);
    const chunks = await collect(await client.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } }));
    const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('');
    assert.equal(text, whole.choices[0].message.content ?? '');
    assert.ok(chunks.at(-1).usage.prompt_tokens_details.cached_tokens > 0);
    const runner = client.chat.completions.stream(request);
    const final = await runner.finalChatCompletion();
    assert.equal(final.choices[0].message.content ?? '', text);
    assert.equal(final.choices[0].finish_reason, whole.choices[0].finish_reason);
});

test('chat: a forced call comes whole and in deltas, and its result is taken', async () => {
    const tools = [{ type: 'function', function: { name: 'lookup', parameters: PARAMETERS } }];
    const request = { model, messages: MESSAGES, tools, tool_choice: 'required', parallel_tool_calls: false, max_tokens: 80, logit_bias: opener, ...OFF };
    const whole = await client.chat.completions.create(request);
    assert.equal(whole.choices[0].finish_reason, 'tool_calls');
    const message = whole.choices[0].message;
    const [call] = message.tool_calls;
    assert.equal(call.function.name, 'lookup');
    assert.equal(typeof JSON.parse(call.function.arguments).on, 'boolean');
    const streamed = await client.chat.completions.stream(request).finalChatCompletion();
    assert.equal(streamed.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
    const next = await client.chat.completions.create({
        model, tools, max_tokens: 4, ...OFF,
        messages: [...MESSAGES, message, { role: 'tool', tool_call_id: call.id, content: 'off' }],
    });
    assert.ok(next.usage.prompt_tokens > whole.usage.prompt_tokens);
});

test('embeddings are refused as the package knows it, at once', async () => {
    const retrying = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none' });
    await assert.rejects(retrying.embeddings.create({ model, input: 'a text' }),
        (error) => error instanceof OpenAI.BadRequestError && error.code === 'embeddings_unsupported' && error.param === 'model');
});

test('completions: whole and streamed', async () => {
    const request = { model, prompt: words(30, 3), max_tokens: 10, temperature: 0 };
    const whole = await client.completions.create(request);
    const chunks = await collect(await client.completions.create({ ...request, stream: true }));
    assert.equal(chunks.map((chunk) => chunk.choices[0]?.text ?? '').join(''), whole.choices[0].text);
});

test('errors are the classes that the package knows', async () => {
    await assert.rejects(client.chat.completions.create({ model, messages: [{ role: 'robot', content: 'x' }] }),
        (error) => error instanceof OpenAI.BadRequestError && error.param === 'messages[0].role');
    await assert.rejects(client.chat.completions.create({ model, messages: [{ role: 'user', content: words(3000, 1) }] }),
        (error) => error instanceof OpenAI.BadRequestError && error.code === 'context_length_exceeded' && /maximum context length/.test(error.message));
    await assert.rejects(client.responses.create({ model, input: words(3000, 1) }),
        (error) => error instanceof OpenAI.BadRequestError && error.code === 'context_length_exceeded' && error.param === 'input');
    await assert.rejects(client.responses.create({ model, input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:' }] }] }),
        (error) => error instanceof OpenAI.BadRequestError && error.param === 'input[0].content[0]');
});

test('responses: whole and streamed are the same answer', async () => {
    const request = { model, instructions: 'You are brief.', input: words(40, 5), max_output_tokens: 12, reasoning: { effort: 'none' }, temperature: 0, store: false };
    const whole = await client.responses.create(request);
    assert.equal(whole.object, 'response');
    assert.equal(whole.output[0].type, 'message');
    okUsage(whole.usage);
    const events = await collect(await client.responses.create({ ...request, stream: true }));
    const types = events.map((event) => event.type).filter((type, at, all) => type !== all[at - 1]);
    assert.deepEqual(types, ['response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added',
        'response.output_text.delta', 'response.output_text.done', 'response.content_part.done', 'response.output_item.done', `response.${whole.status}`]);
    assert.ok(events.every((event, at) => event.sequence_number === at));
    const final = events.at(-1).response;
    assert.equal(final.output[0].content[0].text, whole.output_text);
    assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
    assert.ok(final.usage.input_tokens_details.cached_tokens > 0);
    const helped = await client.responses.stream(request).finalResponse();
    assert.equal(helped.output_text, whole.output_text);
});

test('responses: reasoning comes as an item with a summary, and goes back', async () => {
    const first = await client.responses.create({ model, input: 'think', max_output_tokens: 16, include: ['reasoning.encrypted_content'], store: false, temperature: 0 });
    const item = first.output[0];
    assert.equal(item.type, 'reasoning');
    assert.equal(typeof item.encrypted_content, 'string');
    assert.ok(item.summary[0].text.length > 0);
    const next = await client.responses.create({
        model, store: false, max_output_tokens: 2, temperature: 0,
        input: [{ role: 'user', content: 'think' }, ...first.output, { role: 'user', content: 'more' }],
    });
    assert.ok(next.usage.input_tokens > first.usage.input_tokens);
});

test('responses: tools in a namespace are called by their own names', async () => {
    const request = {
        model, input: 'call', store: false, max_output_tokens: 100, reasoning: { effort: 'none' }, temperature: 0, logit_bias: opener,
        parallel_tool_calls: false, tool_choice: 'required',
        tools: [{ type: 'namespace', name: 'lights', description: 'x', tools: [{ type: 'function', name: 'turn', strict: false, parameters: PARAMETERS }] }, { type: 'web_search' }],
    };
    const whole = await client.responses.create(request);
    assert.equal(whole.status, 'completed');
    const call = whole.output.at(-1);
    assert.equal(call.type, 'function_call');
    assert.equal(call.name, 'turn');
    assert.equal(call.namespace, 'lights');
    assert.equal(typeof JSON.parse(call.arguments).on, 'boolean');
    const events = await collect(await client.responses.create({ ...request, stream: true }));
    const pieces = events.filter((event) => event.type === 'response.function_call_arguments.delta').map((event) => event.delta).join('');
    assert.equal(pieces, call.arguments);
    const done = events.filter((event) => event.type === 'response.output_item.done').at(-1).item;
    assert.equal(done.arguments, call.arguments);
    assert.equal(done.namespace, 'lights');
    const next = await client.responses.create({
        model, store: false, max_output_tokens: 2, temperature: 0, tools: request.tools,
        input: [{ role: 'user', content: 'call' }, call, { type: 'function_call_output', call_id: call.call_id, output: 'done' }],
    });
    assert.ok(next.usage.input_tokens > whole.usage.input_tokens);
});

test('responses: a conversation goes on by the id of any earlier response', async () => {
    const ask = (input, previous_response_id, more = {}) => client.responses.create({
        model, input, previous_response_id, max_output_tokens: 4, reasoning: { effort: 'none' }, temperature: 0, ...more,
    });
    const one = await ask(words(60, 21));
    const two = await ask('second', one.id);
    const branch = await ask('another', one.id);
    assert.ok(two.usage.input_tokens > one.usage.input_tokens);
    assert.equal(two.previous_response_id, one.id);
    // the whole first turn is known: what is read anew is the end
    assert.ok(branch.usage.input_tokens_details.cached_tokens >= one.usage.input_tokens - 16);
    const three = await ask('third', two.id);
    assert.ok(three.usage.input_tokens > two.usage.input_tokens);
    await assert.rejects(ask('x', 'resp_unknown'), (error) => error.code === 'previous_response_not_found' && error.status === 400);
    const unkept = await ask('x', undefined, { store: false });
    await assert.rejects(ask('x', unkept.id), (error) => error.code === 'previous_response_not_found');
    await assert.rejects(ask('x', one.id, { cache_salt: 'other' }), (error) => error.code === 'previous_response_not_found');
});

test('responses: one is asked for, counted and deleted by its id', async () => {
    const fields = { model, input: words(20, 33), max_output_tokens: 4, reasoning: { effort: 'none' }, temperature: 0 };
    const whole = await client.responses.create(fields);
    assert.deepEqual((await client.responses.retrieve(whole.id)).output, whole.output);
    assert.deepEqual((await client.responses.retrieve(whole.id)).usage, whole.usage);
    let streamed = null;
    for await (const event of await client.responses.create({ ...fields, stream: true })) {
        streamed = event.response ?? streamed;
    }
    assert.equal((await client.responses.retrieve(streamed.id)).output_text, whole.output_text);
    assert.equal((await client.responses.inputTokens.count({ model, input: fields.input, reasoning: { effort: 'none' } })).input_tokens, whole.usage.input_tokens);
    await assert.rejects(client.responses.cancel(whole.id), (error) => error.status === 400 && /complete can't be cancelled/.test(error.message));
    await client.responses.delete(whole.id);
    for (const gone of [() => client.responses.retrieve(whole.id), () => client.responses.delete(whole.id), () => client.responses.cancel(whole.id), () => client.responses.retrieve('resp_unknown')]) {
        await assert.rejects(gone(), (error) => error instanceof OpenAI.NotFoundError && /store: false/.test(error.message) && error.param === 'id');
    }
    await assert.rejects(client.responses.create({ ...fields, previous_response_id: whole.id }), (error) => error.code === 'previous_response_not_found');
    const unkept = await client.responses.create({ ...fields, store: false });
    await assert.rejects(client.responses.retrieve(unkept.id), OpenAI.NotFoundError);
});

test('responses: json_schema makes JSON', async () => {
    const response = await client.responses.create({
        model, input: 'json', max_output_tokens: 60, reasoning: { effort: 'none' }, temperature: 0,
        text: { format: { type: 'json_schema', name: 'x', strict: true, schema: PARAMETERS } },
    });
    if (response.status === 'completed') {
        assert.equal(typeof JSON.parse(response.output_text).on, 'boolean');
    }
    assert.equal(response.output_text[0], '{');
});
