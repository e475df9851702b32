// What the coding agents need of a server, field by field: opencode, Claude Code, Codex, Qwen Code, pi, Cline, Continue,
// LangChain, OpenAI Agents and the two SDKs. A script answers, so that calls, reasoning and text are what a test wants.
//
// Found with these clients: without the field named in a test the client loops, stops, or loses the turn.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Server, eventsOf, messageOf, words } from './harness.mjs';

const ONE = { name: 'bash', arguments: { command: 'ls -l', timeout: 5 } };
const TWO = { name: 'read', arguments: { path: 'a.txt' } };
const SCRIPT = [
    { when: { last: 'one call' }, answer: { reasoning: 'First a look.', calls: [ONE] } },
    { when: { last: 'two calls' }, answer: { reasoning: 'Both.', text: 'I look at both.', calls: [ONE, TWO] } },
    { when: { last: 'custom call' }, answer: { calls: [{ name: 'apply_patch', arguments: { input: '*** Begin Patch\n"x"\n' } }] } },
    { when: { last: 'space call' }, answer: { calls: [{ name: 'agents__spawn', arguments: { task: 'x' } }] } },
    { when: { last: 'think' }, answer: { reasoning: 'A long thought.', text: 'Done.' } },
    { answer: { text: 'All is well.' } },
];
const SCHEMAS = [['bash', { command: { type: 'string' }, timeout: { type: 'integer' } }], ['read', { path: { type: 'string' } }]];
const chatTools = SCHEMAS.map(([name, properties]) => ({ type: 'function', function: { name, description: `runs ${name}`, parameters: { type: 'object', properties } } }));
const messagesTools = SCHEMAS.map(([name, properties]) => ({ name, description: `runs ${name}`, input_schema: { type: 'object', properties } }));
const responsesTools = SCHEMAS.map(([name, properties]) => ({ type: 'function', name, description: `runs ${name}`, strict: false, parameters: { type: 'object', properties } }));

let server;
let folder;

before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cairn-protocol-'));
    await writeFile(join(folder, 'script'), SCRIPT.map((line) => JSON.stringify(line)).join('\n'));
    server = await Server.start(['-c', '4096', '--cache-ram', '256M', '--alias', 'm', '--script', join(folder, 'script')]);
});

after(async () => {
    await server.stop();
    await rm(folder, { recursive: true });
});

const user = (content) => [{ role: 'user', content }];
const chat = (messages, fields = {}) => server.post('/v1/chat/completions', { model: 'm', messages, tools: chatTools, ...fields });
const stream = async (messages, fields = {}) => eventsOf((await chat(messages, { stream: true, stream_options: { include_usage: true }, ...fields })).text);

// Named events: [{ event, data }].
async function events(path, body) {
    const { status, text } = await server.post(path, { model: 'm', stream: true, ...body });
    assert.equal(status, 200, text);
    return text.split('\n\n').filter((part) => part.startsWith('event: ')).map((part) => {
        const [first, second] = part.split('\n');
        return { event: first.slice(7), data: JSON.parse(second.slice(6)) };
    });
}

/* --- chat completions: opencode, Qwen Code, pi, Cline, Continue ---------------------------------------------------- */

test('chat stream: every chunk has id, object, created and model; the first has the role; [DONE] ends it', async () => {
    const list = await stream(user('hello'));
    assert.equal(list.at(-1), '[DONE]');
    const chunks = list.slice(0, -1);
    for (const chunk of chunks) {
        assert.match(chunk.id, /^chatcmpl-/);
        assert.equal(chunk.object, 'chat.completion.chunk');
        assert.ok(Number.isInteger(chunk.created));
        assert.equal(chunk.model, 'm');
        assert.ok(Array.isArray(chunk.choices));
    }
    assert.equal(chunks[0].choices[0].delta.role, 'assistant');
});

test('chat stream: finish_reason comes once, in a chunk of its own kind (without it opencode loops, Cline and Qwen give up)', async () => {
    for (const [ask, reason] of [['hello', 'stop'], ['one call', 'tool_calls'], ['two calls', 'tool_calls']]) {
        const chunks = (await stream(user(ask))).slice(0, -1);
        const finishes = chunks.map((chunk) => chunk.choices[0]?.finish_reason).filter(Boolean);
        assert.deepEqual(finishes, [reason]);
        assert.deepEqual(chunks.filter((chunk) => chunk.choices[0]?.finish_reason)[0].choices[0].delta, {});
    }
    const cut = (await stream(user('hello'), { max_tokens: 1 })).slice(0, -1);
    assert.deepEqual(cut.map((chunk) => chunk.choices[0]?.finish_reason).filter(Boolean), ['length']);
});

test('chat stream: each call delta has its index, the first of a call id, type and name (opencode, Cline, Continue)', async () => {
    const chunks = (await stream(user('two calls'))).slice(0, -1);
    const deltas = chunks.flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? []);
    const seen = new Map();
    for (const delta of deltas) {
        assert.ok(Number.isInteger(delta.index));
        if (!seen.has(delta.index)) {
            assert.ok(delta.id.length > 0);
            assert.equal(delta.type, 'function');
            assert.ok(delta.function.name.length > 0);
        } else {
            assert.equal(delta.function.name, undefined);
        }
        assert.equal(typeof delta.function.arguments, 'string');
        seen.set(delta.index, delta.id ?? seen.get(delta.index));
    }
    assert.deepEqual([...seen.keys()], [0, 1]);
    assert.notEqual(seen.get(0), seen.get(1));
    assert.ok(deltas.length > 4, 'arguments come piece by piece');
    const message = messageOf(chunks);
    assert.deepEqual(message.tool_calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]),
        [[ONE.name, ONE.arguments], [TWO.name, TWO.arguments]]);
    assert.equal(message.content.trim(), 'I look at both.');
});

test('chat: reasoning is in reasoning_content, never in content, streamed and whole', async () => {
    const message = messageOf((await stream(user('think'))).slice(0, -1));
    assert.equal(message.reasoning_content.trim(), 'A long thought.');
    assert.equal(message.content.trim(), 'Done.');
    const whole = (await chat(user('think'))).json.choices[0].message;
    assert.equal(whole.reasoning_content.trim(), 'A long thought.');
    assert.equal(whole.content.trim(), 'Done.');
    assert.ok(!JSON.stringify(whole).includes('<think>'));
});

test('chat: a whole answer with calls has ids, types, JSON arguments, and a true count of tokens', async () => {
    const { json } = await chat(user('two calls'));
    const [first, second] = json.choices[0].message.tool_calls;
    assert.equal(json.choices[0].finish_reason, 'tool_calls');
    assert.equal(first.type, 'function');
    assert.notEqual(first.id, second.id);
    assert.deepEqual(JSON.parse(second.function.arguments), TWO.arguments);
    const { prompt } = (await server.post('/apply-template', { messages: user('two calls'), tools: chatTools })).json;
    const { tokens } = (await server.post('/tokenize', { content: prompt, add_special: true })).json;
    assert.equal(json.usage.prompt_tokens, tokens.length);
    const last = (await stream(user('two calls'))).at(-2);
    assert.equal(last.usage.prompt_tokens, tokens.length);
    assert.equal(last.usage.completion_tokens, json.usage.completion_tokens);
    assert.ok(last.usage.prompt_tokens_details.cached_tokens > 0);
});

test('chat: what the clients send is understood', async () => {
    const call = { id: 'c1', type: 'function', function: { name: 'bash', arguments: '{"command": "ls"}' } };
    const result = { role: 'tool', tool_call_id: 'c1', content: 'a.txt' };
    const good = {
        'opencode: reasoning_content and empty content beside calls, several text parts': [{ role: 'system', content: 's' },
            { role: 'user', content: [{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }] }, { role: 'assistant', content: '', reasoning_content: 'r', tool_calls: [call] }, result],
        'Qwen Code: content as a list, for users and tools': [{ role: 'user', content: [{ type: 'text', text: 'a' }] }, { role: 'assistant', content: null, tool_calls: [call] },
            { ...result, content: [{ type: 'text', text: 'a.txt' }] }],
        'pi: the role developer': [{ role: 'developer', content: 's' }, { role: 'user', content: 'a' }],
        'pi: reasoning under another key': [{ role: 'user', content: 'a' }, { role: 'assistant', content: 'b', reasoning: 'r' }, { role: 'user', content: 'c' }],
        'Cline: null beside calls': [{ role: 'user', content: 'a' }, { role: 'assistant', content: null, tool_calls: [call] }, result],
        'Cline: two user messages after an abort': [{ role: 'user', content: 'a' }, { role: 'user', content: 'b' }],
        'Continue: the assistant right after the system text': [{ role: 'system', content: 's' }, { role: 'assistant', content: 'summary' }, { role: 'user', content: 'a' }],
        'LangChain: a name on the assistant': [{ role: 'user', content: 'a' }, { role: 'assistant', name: 'model', content: 'b' }, { role: 'user', content: 'c' }],
        'aborted: partial text and partial reasoning': [{ role: 'user', content: 'a' }, { role: 'assistant', content: 'half a', reasoning_content: 'half' }, { role: 'user', content: 'c' }],
        'a call without arguments': [{ role: 'user', content: 'a' }, { role: 'assistant', content: '', tool_calls: [{ ...call, function: { name: 'bash', arguments: '' } }] }, result],
        'results of parallel calls': [{ role: 'user', content: 'a' }, { role: 'assistant', content: '', tool_calls: [call, { ...call, id: 'c2' }] }, result, { ...result, tool_call_id: 'c2' }],
    };
    for (const [name, messages] of Object.entries(good)) {
        const answer = await chat(messages);
        assert.equal(answer.status, 200, `${name}: ${answer.text}`);
    }
    const fields = { max_completion_tokens: 5, reasoning_effort: 'low', store: false, parallel_tool_calls: true, tool_choice: 'auto', metadata: { a: 'b' }, user: 'u', service_tier: 'auto', prompt_cache_key: 'k', stream_options: { include_usage: true } };
    assert.equal((await chat(user('hello'), fields)).status, 200);
    assert.equal((await chat(user('hello'), { tools: [] })).status, 200);
    assert.equal((await chat(user('hello'), { tools: null, tool_choice: null, stop: null, temperature: null })).status, 200);
});

test('chat: tool_choice none offers no tool, a named one only that', async () => {
    const counted = async (fields) => (await chat(user('hello'), fields)).json.usage.prompt_tokens;
    const all = await counted({});
    assert.ok(await counted({ tools: undefined }) < all);
    assert.equal((await chat(user('hello'), { tool_choice: 'none' })).json.choices[0].message.tool_calls, undefined);
    assert.equal((await chat(user('hello'), { tool_choice: { type: 'function', function: { name: 'bash' } } })).status, 200);
    const unknown = await chat(user('hello'), { tool_choice: { type: 'function', function: { name: 'nobody' } } });
    assert.equal(unknown.status, 400);
    assert.match(unknown.json.error.param, /^tool_choice/);
    assert.equal((await chat(user('hello'), { tool_choice: 'perhaps' })).status, 400);
});

test('chat: beyond the context the words and the code by which clients compact', async () => {
    const { status, json } = await chat(user(words(6000, 1)), { stream: true });
    assert.equal(status, 400);
    assert.match(json.error.message, /maximum context length is 4096 tokens/);
    assert.equal(json.error.code, 'context_length_exceeded');
    assert.equal(json.error.type, 'invalid_request_error');
});

/* --- Messages: Claude Code, pi, Anthropic's SDK -------------------------------------------------------------------- */

const CLAUDE = {
    max_tokens: 200,
    system: [{ type: 'text', text: 'You are Claude Code.' }, { type: 'text', text: 'Rules.', cache_control: { type: 'ephemeral', ttl: '1h' } }],
    thinking: { type: 'adaptive', display: 'summarized' }, output_config: { effort: 'high' },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
    metadata: { user_id: 'user_1' }, tools: [...messagesTools, { name: 'later', defer_loading: true, description: 'x', input_schema: { type: 'object', properties: {} }, cache_control: { type: 'ephemeral' } }],
};

test('messages: events in their order, every block is opened and closed (without content_block_stop Claude Code loses the call)', async () => {
    const list = await events('/v1/messages?beta=true', { ...CLAUDE, messages: user('two calls') });
    assert.equal(list[0].event, 'message_start');
    assert.deepEqual(list.slice(-2).map((item) => item.event), ['message_delta', 'message_stop']);
    assert.ok(list.every((item) => item.event === item.data.type));
    const start = list[0].data.message;
    assert.equal(start.role, 'assistant');
    assert.deepEqual(start.content, []);
    assert.equal(start.stop_reason, null);
    assert.ok(start.usage.input_tokens >= 0 && start.usage.output_tokens === 0);
    const blocks = list.filter((item) => item.event === 'content_block_start').map((item) => item.data.content_block.type);
    assert.deepEqual(blocks, ['thinking', 'text', 'tool_use', 'tool_use']);
    const stops = list.filter((item) => item.event === 'content_block_stop').map((item) => item.data.index);
    assert.deepEqual(stops, [0, 1, 2, 3]);
    let open = -1;
    for (const { event, data } of list) {
        if (event === 'content_block_start') {
            assert.equal(open, -1);
            open = data.index;
        } else if (event === 'content_block_delta') {
            assert.equal(data.index, open);
        } else if (event === 'content_block_stop') {
            open = -1;
        }
    }
    const calls = list.filter((item) => item.event === 'content_block_start' && item.data.content_block.type === 'tool_use');
    assert.ok(calls.every((item) => item.data.content_block.id.startsWith('toolu_') && JSON.stringify(item.data.content_block.input) === '{}'));
    for (const [index, expected] of [[2, ONE], [3, TWO]]) {
        const pieces = list.filter((item) => item.data.index === index && item.data.delta?.type === 'input_json_delta').map((item) => item.data.delta.partial_json);
        assert.deepEqual(JSON.parse(pieces.join('')), expected.arguments);
        assert.ok(pieces.length > 1);
    }
    assert.equal(list.at(-2).data.delta.stop_reason, 'tool_use');
    assert.ok(list.at(-2).data.usage.output_tokens > 0);
});

test('messages: what Claude Code sends is understood, and the same in a whole answer', async () => {
    const first = await server.post('/v1/messages?beta=true', { ...CLAUDE, model: 'm', messages: [
        { role: 'user', content: [{ type: 'text', text: '<system-reminder>CLAUDE.md</system-reminder>' }, { type: 'text', text: 'one call', cache_control: { type: 'ephemeral' } }] },
    ] }, { headers: { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'unknown-2031-01-01,another-2032-02-02' } });
    assert.equal(first.status, 200, first.text);
    assert.deepEqual(first.json.content.map((block) => block.type), ['thinking', 'tool_use']);
    assert.deepEqual(first.json.content[1].input, ONE.arguments);
    const next = await server.post('/v1/messages', { ...CLAUDE, model: 'm', safeguards: { x: 1 }, messages: [
        { role: 'user', content: 'one call' },
        { role: 'system', content: [{ type: 'text', text: 'The date has changed.' }] },
        { role: 'assistant', content: [{ ...first.json.content[0] }, { type: 'redacted_thinking', data: 'x' }, { ...first.json.content[1], input: { timeout: 5, command: 'ls -l' }, cache_control: { type: 'ephemeral' } }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: first.json.content[1].id, is_error: true, content: [{ type: 'text', text: 'no' }, { type: 'tool_reference', tool_name: 'later' }] },
            { type: 'text', text: '[Request interrupted by user]' }] },
    ] });
    assert.equal(next.status, 200, next.text);
    assert.equal(next.json.stop_reason, 'end_turn');
    const { usage } = next.json;
    const counted = await server.post('/v1/messages/count_tokens', { ...CLAUDE, model: 'm', messages: user('one call') });
    assert.ok(counted.json.input_tokens > 0);
    assert.ok(usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens > counted.json.input_tokens);
    assert.ok(usage.cache_read_input_tokens > 0);
});

test('messages: output_config.format and tool_choice are taken; images are refused with their place; overflow says how much', async () => {
    const ask = (fields) => server.post('/v1/messages', { ...CLAUDE, model: 'm', messages: user('hello'), ...fields });
    assert.equal((await ask({ output_config: { format: { type: 'json_schema', schema: { type: 'object', properties: { title: { type: 'string' } } } } }, tools: [] })).status, 200);
    for (const tool_choice of [{ type: 'auto' }, { type: 'any', disable_parallel_tool_use: true }, { type: 'tool', name: 'bash' }, { type: 'none' }]) {
        assert.equal((await ask({ tool_choice })).status, 200, JSON.stringify(tool_choice));
    }
    const image = await ask({ messages: [{ role: 'user', content: [{ type: 'text', text: 'a' }, { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } }] }] });
    assert.equal(image.status, 400);
    assert.match(image.json.error.message, /messages\[0\]\.content\[1\]/);
    const long = await ask({ messages: user(words(6000, 1)) });
    assert.equal(long.status, 400);
    assert.match(long.json.error.message, /^prompt is too long: \d+ tokens > 4096 maximum/);
    assert.deepEqual([long.json.type, long.json.error.type], ['error', 'invalid_request_error']);
    const thread = await ask({ thread: { type: 'create' } });
    assert.deepEqual(thread.json.error.details, { error_code: 'thread_unsupported_request', unsupported: ['thread'] });
});

/* --- Responses: Codex, pi, OpenAI Agents, LangChain ---------------------------------------------------------------- */

const CODEX = {
    store: false, include: ['reasoning.encrypted_content'], prompt_cache_key: 'thread-1', client_metadata: { a: 'b' }, parallel_tool_calls: true, tool_choice: 'auto',
    reasoning: { effort: 'medium', summary: 'auto' }, text: { verbosity: 'low' },
    tools: [...responsesTools, { type: 'namespace', name: 'agents', description: 'x', tools: [{ type: 'function', name: 'spawn', parameters: { type: 'object', properties: { task: { type: 'string' } } } }] },
        { type: 'custom', name: 'apply_patch', description: 'x', format: { type: 'grammar', syntax: 'lark', definition: 'start: "a"' } }, { type: 'web_search', external_web_access: false }],
};
const codexInput = (text) => [{ type: 'message', id: 'msg_1', role: 'developer', content: [{ type: 'input_text', text: 'You are Codex.' }] },
    { type: 'message', id: 'msg_2', role: 'developer', content: [{ type: 'input_text', text: 'Permissions.' }] }, { type: 'message', role: 'user', content: [{ type: 'input_text', text }] }];

test('responses: events in their order; output_item.done and response.completed hold everything (vital for Codex)', async () => {
    const list = await events('/v1/responses', { ...CODEX, input: codexInput('two calls') });
    assert.deepEqual(list.map((item) => item.event).filter((name, at, all) => name !== all[at - 1]), [
        'response.created', 'response.in_progress',
        'response.output_item.added', 'response.reasoning_summary_part.added', 'response.reasoning_summary_text.delta', 'response.reasoning_summary_text.done', 'response.reasoning_summary_part.done', 'response.output_item.done',
        'response.output_item.added', 'response.content_part.added', 'response.output_text.delta', 'response.output_text.done', 'response.content_part.done', 'response.output_item.done',
        'response.output_item.added', 'response.function_call_arguments.delta', 'response.function_call_arguments.done', 'response.output_item.done',
        'response.output_item.added', 'response.function_call_arguments.delta', 'response.function_call_arguments.done', 'response.output_item.done',
        'response.completed']);
    assert.ok(list.every((item, at) => item.data.type === item.event && item.data.sequence_number === at));
    const items = list.filter((item) => item.event === 'response.output_item.done').map((item) => item.data.item);
    assert.deepEqual(items.map((item) => item.type), ['reasoning', 'message', 'function_call', 'function_call']);
    assert.equal(typeof items[0].encrypted_content, 'string');
    assert.deepEqual(JSON.parse(items[2].arguments), ONE.arguments);
    assert.ok(items[2].call_id.length > 0 && items[2].call_id !== items[3].call_id);
    const { response } = list.at(-1).data;
    assert.equal(response.status, 'completed');
    assert.deepEqual(response.output, items);
    assert.equal(response.usage.input_tokens + response.usage.output_tokens, response.usage.total_tokens);
    assert.equal(typeof response.usage.input_tokens_details.cached_tokens, 'number');
    const { reasoning_tokens } = response.usage.output_tokens_details;
    const { tokens } = (await server.post('/tokenize', { content: 'Both.' })).json;
    assert.ok(Math.abs(reasoning_tokens - tokens.length) <= 1, `${reasoning_tokens} of ${tokens.length}`);
});

test('responses: a custom tool gets free text, a tool of a namespace its own name', async () => {
    const custom = await server.post('/v1/responses', { ...CODEX, model: 'm', input: codexInput('custom call') });
    const call = custom.json.output.at(-1);
    assert.deepEqual([call.type, call.name, call.input], ['custom_tool_call', 'apply_patch', '*** Begin Patch\n"x"\n']);
    const streamed = await events('/v1/responses', { ...CODEX, input: codexInput('custom call') });
    const names = streamed.map((item) => item.event);
    assert.ok(names.includes('response.custom_tool_call_input.delta') && names.includes('response.custom_tool_call_input.done'), names.join(' '));
    assert.ok(!names.includes('response.function_call_arguments.delta'));
    assert.equal(streamed.find((item) => item.event === 'response.custom_tool_call_input.done').data.input, call.input);
    const space = await server.post('/v1/responses', { ...CODEX, model: 'm', input: codexInput('space call') });
    assert.deepEqual([space.json.output.at(-1).name, space.json.output.at(-1).namespace], ['spawn', 'agents']);
    const next = await server.post('/v1/responses', { ...CODEX, model: 'm', input: [...codexInput('custom call'), ...custom.json.output,
        { type: 'custom_tool_call_output', call_id: call.call_id, output: 'ok' }] });
    assert.equal(next.json.output_text ?? next.json.output.at(-1).content[0].text.trim(), 'All is well.');
});

test('responses: what Codex sends back is understood, and the next turn extends the prompt', async () => {
    const input = codexInput('one call');
    const first = await server.post('/v1/responses', { ...CODEX, model: 'm', input });
    const [reasoning, call] = first.json.output;
    const next = await server.post('/v1/responses', { ...CODEX, model: 'm', input: [
        ...input.map((item) => ({ ...item, id: `new_${Math.random()}` })), { ...reasoning, content: null }, call,
        { type: 'function_call_output', call_id: call.call_id, output: [{ type: 'input_text', text: 'a.txt' }] },
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: '<turn_aborted>' }] }, { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'go on' }] },
    ] });
    assert.equal(next.status, 200, next.text);
    assert.ok(next.json.usage.input_tokens_details.cached_tokens >= first.json.usage.input_tokens - 16); // the template drops older reasoning
    const plain = codexInput('hello');
    for (const fields of [{ tools: [] }, { tools: [], text: { format: { type: 'json_schema', name: 'title', strict: true, schema: { type: 'object', properties: { t: { type: 'string' } } } } } },
        { input: 'a text' }, { input: [{ role: 'user', content: 'no type' }] }, { instructions: 'i' }]) {
        const answer = await server.post('/v1/responses', { ...CODEX, model: 'm', input: plain, ...fields });
        assert.equal(answer.status, 200, `${JSON.stringify(fields)} ${answer.text}`);
    }
    const long = await server.post('/v1/responses', { ...CODEX, model: 'm', stream: true, input: codexInput(words(6000, 1)) });
    assert.equal(long.status, 400);
    assert.equal(long.json.error.code, 'context_length_exceeded');
});

/* --- all ----------------------------------------------------------------------------------------------------------- */

test('paths that clients try: HEAD, models, a base address without /v1', async () => {
    for (const path of ['/', '/api/hello', '/v1/messages']) {
        assert.ok([200, 404].includes((await fetch(server.url + path, { method: 'HEAD' })).status), path);
    }
    assert.equal((await server.get('/v1/models')).json.data[0].id, 'm');
    assert.equal((await server.post('/chat/completions', { messages: user('hello') })).status, 200);
    assert.equal((await server.post('/responses', { input: 'hello' })).status, 200);
});
