// Answers that come back in the client's own words: the next prompt extends what was read and written, and says so.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Server, eventsOf, messageOf, words } from './harness.mjs';

let server;
let small;
let opener;

before(async () => {
    [server, small] = await Promise.all([
        Server.start(['-c', '4096', '--cache-ram', '512M']),
        Server.start(['-c', '2048', '--cache-ram', '256M', '--answers-max', '0']),
    ]);
    const { tokens } = (await server.post('/tokenize', { content: '<tool_call>' })).json;
    assert.equal(tokens.length, 1);
    opener = { [tokens[0]]: 1000 };
});

after(async () => {
    await Promise.all([server, small].map((each) => each.stop()));
});

const properties = {
    on: { type: 'boolean' },
    where: {
        type: 'object',
        properties: { line: { type: 'integer', enum: [12] }, exact: { type: 'boolean' } },
        required: ['line', 'exact'],
        additionalProperties: false,
    },
};
const parameters = { type: 'object', properties, required: ['on', 'where'], additionalProperties: false };
const tools = [{ type: 'function', function: { name: 'lookup', description: 'Looks something up.', parameters } }];
const plain = { tools, chat_template_kwargs: { enable_thinking: false }, cairn: { explain: true } };
const forced = () => ({ ...plain, tool_choice: 'required', parallel_tool_calls: false, max_tokens: 400, logit_bias: opener });
const start = (name) => [{ role: 'system', content: `${name} ${words(80, 3)}` }, { role: 'user', content: 'Look it up.' }];
const ended = (answer) => answer.json.usage.prompt_tokens + answer.json.usage.completion_tokens;
const cached = (answer) => answer.json.usage.prompt_tokens_details.cached_tokens;

// As clients do it: arguments parsed and written anew, with `change` made to them.
const sentBack = (message, change = (args) => args) => ({
    role: 'assistant',
    content: '',
    tool_calls: message.tool_calls.map((call) => ({
        ...call,
        function: { name: call.function.name, arguments: JSON.stringify(change(JSON.parse(call.function.arguments))) },
    })),
});
const result = (message) => ({ role: 'tool', tool_call_id: message.tool_calls[0].id, content: 'It is on.' });

// One call, forced; gives the conversation so far, the message and where the answer ended.
async function call(name, on = server, fields = {}) {
    const messages = start(name);
    const answer = await on.chat(messages, { ...forced(), ...fields });
    const { message } = answer.json.choices[0];
    assert.equal(answer.json.choices[0].finish_reason, 'tool_calls', JSON.stringify(message));
    return { messages, message, end: ended(answer) };
}
const next = ({ messages, message }, change) => [...messages, sentBack(message, change), result(message)];

test('a call that comes back serialised anew is resumed at the end of the answer', async () => {
    const turn = await call('anew');
    const answer = await server.chat(next(turn), plain);
    assert.ok(cached(answer) >= turn.end - 8, `${cached(answer)} of ${turn.end}`);
    const [note] = answer.json.cairn.notes;
    assert.equal(note.rule, 'answer');
    assert.equal(note.message, 2);
    assert.equal(note.done, 'generated tokens');
    assert.equal((await server.newest()).recalled, 1);
    const { requests } = (await server.get('/cairn/requests')).json;
    assert.equal(requests[0].recalled, 1);
    const metrics = (await server.get('/metrics')).text;
    assert.match(metrics, /^cairn_answers_recalled_total [1-9]/m);
    assert.match(metrics, /^cairn_answers_kept [1-9]/m);
});

test('keys in another order are the same call', async () => {
    const turn = await call('order');
    const turned = ({ on, where }) => ({ where: { exact: where.exact, line: where.line }, on });
    const answer = await server.chat(next(turn, turned), plain);
    assert.ok(cached(answer) >= turn.end - 8, `${cached(answer)} of ${turn.end}`);
    assert.equal(answer.json.cairn.notes[0].differed, 'text');
});

test('after a restart an answer is known as before', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'cairn-answers-'));
    const open = () => Server.start(['-c', '4096', '--cache-ram', '256M', '--cache-disk', `${dir}:512M`]);
    try {
        const first = await open();
        const turn = await call('restart', first);
        await first.stop();
        const second = await open();
        try {
            const turned = ({ on, where }) => ({ where: { exact: where.exact, line: where.line }, on });
            const answer = await second.chat(next(turn, turned), plain);
            assert.equal(answer.json.cairn.notes[0].rule, 'answer');
            assert.ok(cached(answer) >= turn.end - 8, `${cached(answer)} of ${turn.end}`);
            assert.equal(answer.json.cairn.tier, 'disk');
        } finally {
            await second.stop();
        }
    } finally {
        await rm(dir, { recursive: true, force: true });
    }
});

test('another value is another call, and the prompt parts from the answer where it differs', async () => {
    const turn = await call('value');
    const answer = await server.chat(next(turn, (args) => ({ ...args, on: !args.on })), plain);
    assert.ok(cached(answer) < turn.end - 8, `${cached(answer)} of ${turn.end}`);
    assert.equal(answer.json.cairn.notes, undefined);
    assert.equal((await server.newest()).recalled, 0);
});

test('exact: the prompt is the request alone', async () => {
    const turn = await call('exact');
    const exact = { ...plain, cairn: { explain: true, resume: 'exact' } };
    const answer = await server.chat(next(turn), exact);
    assert.ok(cached(answer) < turn.end - 8, `${cached(answer)} of ${turn.end}`);
    assert.equal(answer.json.cairn.notes, undefined);
    // The same prompt as on a server that has never seen the answer.
    const cold = await small.chat(next(turn), exact);
    assert.equal(answer.json.usage.prompt_tokens, cold.json.usage.prompt_tokens);
});

test('another namespace knows nothing of the answer', async () => {
    const salted = (salt) => ({ cairn: { explain: true, cache_salt: salt } });
    const turn = await call('salt', server, salted('one'));
    const other = await server.chat(next(turn), { ...plain, ...salted('two') });
    assert.equal(cached(other), 0);
    assert.equal(other.json.cairn.notes, undefined);
    const own = await server.chat(next(turn), { ...plain, ...salted('one') });
    assert.ok(cached(own) >= turn.end - 8, `${cached(own)} of ${turn.end}`);
});

// A template that prints no reasoning: the opener of an answer is the same before and after a user's next message.
const CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

test('text that the model wrote in unusual tokens is resumed at its end', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'cairn-answers-'));
    const file = join(folder, 'chatml.jinja');
    await writeFile(file, CHATML);
    const other = await Server.start(['-c', '1024', '--cache-ram', '256M', '--chat-template-file', file]);
    try {
        let messages = start('text');
        let changed = 0;
        for (let turn = 0; turn < 3; turn++) {
            const first = await other.chat(messages, { max_tokens: 24, temperature: 1, seed: 40 + turn });
            const { content } = first.json.choices[0].message;
            messages = [...messages, { role: 'assistant', content: content.trimEnd() }, { role: 'user', content: 'Go on.' }];
            const answer = await other.chat(messages, { cairn: { explain: true }, max_tokens: 1 });
            assert.ok(cached(answer) >= ended(first) - 8, `turn ${turn}: ${cached(answer)} of ${ended(first)}`);
            changed += answer.json.cairn.notes?.length ?? 0;
        }
        assert.ok(changed > 0);
    } finally {
        await other.stop();
        await rm(folder, { recursive: true });
    }
});

test('several turns of a stream, each sent back anew, read only what is new', async () => {
    let messages = start('turns');
    let end = 0;
    for (let turn = 0; turn < 4; turn++) {
        const { text } = await server.post('/v1/chat/completions',
            { messages, ...forced(), temperature: 0, stream: true, stream_options: { include_usage: true } });
        const events = eventsOf(text);
        const { usage } = events.at(-2);
        assert.ok(usage.prompt_tokens_details.cached_tokens >= end - 8, `turn ${turn}: ${usage.prompt_tokens_details.cached_tokens} of ${end}`);
        end = usage.prompt_tokens + usage.completion_tokens;
        const message = messageOf(events);
        assert.equal(message.tool_calls.length, 1);
        messages = next({ messages, message });
    }
});

test('a Messages client that writes its input anew is resumed at the end of the answer', async () => {
    const request = (messages, fields = {}) => server.post('/v1/messages', {
        model: 'm', system: `messages ${words(80, 3)}`, messages, max_tokens: 400, temperature: 0, cairn: { explain: true }, chat_template_kwargs: { enable_thinking: false },
        tools: [{ name: 'lookup', description: 'Looks something up.', input_schema: parameters }], ...fields,
    });
    const first = [{ role: 'user', content: 'Look it up.' }];
    const force = { tool_choice: { type: 'any', disable_parallel_tool_use: true }, logit_bias: opener };
    const answer = await request(first, force);
    assert.equal(answer.json.stop_reason, 'tool_use', answer.text);
    const whole = (usage) => usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
    const end = whole(answer.json.usage) + answer.json.usage.output_tokens;
    const content = answer.json.content.map((block) => (block.type === 'tool_use'
        ? { ...block, input: { where: { exact: block.input.where.exact, line: block.input.where.line }, on: block.input.on }, cache_control: { type: 'ephemeral' } }
        : block));
    const id = content.find((block) => block.type === 'tool_use').id;
    const next = await request([...first, { role: 'assistant', content },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'It is on.' }] }], { max_tokens: 4 });
    assert.ok(next.json.usage.cache_read_input_tokens >= end - 8, `${JSON.stringify(next.json.usage)} of ${end}`);
    assert.equal(next.json.cairn.notes[0].rule, 'answer');
});

test('a Responses client that writes its arguments anew is resumed at the end of the answer', async () => {
    const request = (input, fields = {}) => server.post('/v1/responses', {
        model: 'm', instructions: `responses ${words(80, 3)}`, input, max_output_tokens: 400, temperature: 0, store: false, cairn: { explain: true }, chat_template_kwargs: { enable_thinking: false },
        tools: [{ type: 'function', name: 'lookup', description: 'Looks something up.', parameters }], ...fields,
    });
    const first = [{ role: 'user', content: 'Look it up.' }];
    const answer = await request(first, { tool_choice: 'required', parallel_tool_calls: false, logit_bias: opener });
    const call = answer.json.output.find((item) => item.type === 'function_call');
    assert.ok(call, answer.text);
    const end = answer.json.usage.input_tokens + answer.json.usage.output_tokens;
    const next = await request([...first, { ...call, arguments: JSON.stringify(JSON.parse(call.arguments), null, 1) },
        { type: 'function_call_output', call_id: call.call_id, output: 'It is on.' }], { max_output_tokens: 4 });
    assert.ok(next.json.usage.input_tokens_details.cached_tokens >= end - 8, `${JSON.stringify(next.json.usage)} of ${end}`);
});

test('what is not remembered is read as the client wrote it', async () => {
    const turn = await call('off', small);
    const answer = await small.chat(next(turn), plain);
    assert.ok(cached(answer) > 0 && cached(answer) < turn.end - 8, `${cached(answer)} of ${turn.end}`);
    assert.match((await small.get('/metrics')).text, /^cairn_answers_kept 0$/m);
});
