// --script: answers from a file; rendering, reading, cache, decoding and parsing are real.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Server, eventsOf, messageOf, runProgram, words } from './harness.mjs';

const LINES = [
    { when: { role: 'user', last: 'list the files' }, answer: { reasoning: 'I should look.', text: 'Looking.', calls: [{ name: 'bash', arguments: { command: 'ls -l', count: 1 } }, { name: 'bash', arguments: { background: false, command: 'true' } }] } },
    { when: { role: 'tool', turn: 1 }, answer: { text: 'There are two files.' } },
    { when: { system: 'be brief', tools: false }, answer: { text: 'Yes.' } },
    { when: { any: 'remember', role: 'user', last: 'what' }, answer: { text: 'You said it.' } },
    { when: { last: 'raw' }, answer: { raw: 'thought\n</think>\n\nraw text' } },
    { when: { last: 'unknown argument' }, answer: { calls: [{ name: 'bash', arguments: { nowhere: 1 } }] } },
    { when: { last: 'long' }, answer: { text: words(60, 5) } },
    { when: { last: 'once' }, answer: { text: 'first' }, times: 1 },
    { when: { last: 'once' }, answer: { text: 'after' } },
];
const parameters = { type: 'object', properties: { command: { type: 'string' }, count: { type: 'integer' }, background: { type: 'boolean' } } };
const tools = [{ type: 'function', function: { name: 'bash', description: 'Runs a command.', parameters } }];
const user = (content) => [{ role: 'user', content }];
let folder;
let server;

before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cairn-script-'));
    await writeFile(join(folder, 'script.jsonl'), `# a script\n\n${LINES.map((line) => JSON.stringify(line)).join('\n')}\n`);
    server = await Server.start(['-c', '8192', '--cache-ram', '512M', '--script', join(folder, 'script.jsonl')]);
});

after(async () => {
    await server.stop();
    await rm(folder, { recursive: true });
});

test('a script is told in the log and in /props', async () => {
    const warning = await server.waitForLog((line) => line.event === 'script');
    assert.equal(warning.level, 'warn');
    assert.equal(warning.lines, LINES.length);
    assert.equal((await server.get('/props')).json.cairn_script, LINES.length);
});

test('text, reasoning and calls come out of the parser as the script has them, streamed and whole', async () => {
    const whole = await server.chat(user('please list the files'), { tools, max_tokens: 400 });
    const events = eventsOf((await server.chat(user('please list the files'), { tools, max_tokens: 400, stream: true })).text);
    for (const message of [whole.json.choices[0].message, messageOf(events)]) {
        assert.equal(message.content.trim(), 'Looking.');
        assert.equal(message.reasoning_content.trim(), 'I should look.');
        assert.deepEqual(message.tool_calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]),
            [['bash', { command: 'ls -l', count: 1 }], ['bash', { background: false, command: 'true' }]]);
    }
    assert.equal(whole.json.choices[0].finish_reason, 'tool_calls');
});

test('prefill and cache are real: the next turn reads what is new only', async () => {
    const messages = [{ role: 'system', content: words(300, 8) }, ...user('list the files of this folder')];
    const first = await server.chat(messages, { tools, max_tokens: 400, cairn: { explain: true } });
    assert.ok(first.json.cairn.read > 300);
    const { message } = first.json.choices[0];
    messages.push(message, ...message.tool_calls.map((call) => ({ role: 'tool', tool_call_id: call.id, content: 'a.txt b.txt' })));
    const second = await server.chat(messages, { tools, max_tokens: 400, cairn: { explain: true } });
    assert.equal(second.json.choices[0].message.content, 'There are two files.');
    assert.equal(second.json.cairn.read, second.json.cairn.least);
    assert.ok(second.json.cairn.reused >= first.json.usage.total_tokens - 1);
});

test('each condition decides', async () => {
    const system = [{ role: 'system', content: 'You shall be brief.' }];
    const said = async (messages, fields = {}) => {
        const answer = await server.chat(messages, { max_tokens: 400, ...fields });
        return answer.status === 200 ? answer.json.choices[0].message.content : answer.json.error.message;
    };
    assert.equal(await said([...system, ...user('hello')]), 'Yes.');
    assert.match(await said([...system, ...user('hello')], { tools }), /no line of it/);
    assert.equal(await said([{ role: 'user', content: [{ type: 'text', text: 'remember 7' }] }, { role: 'assistant', content: 'ok' }, ...user('what was it?')]), 'You said it.');
    assert.match(await said(user('what was it?')), /no line of it/);
    assert.equal(await said([...user('what of it? remember'), { role: 'system', content: 'A reminder.' }]), 'You said it.');
    assert.equal(await said(user('once')), 'first');
    assert.equal(await said(user('once')), 'after');
    assert.equal(await said(user('once')), 'after');
    assert.match(await said(user('unknown argument'), { tools }), /can be read back/);
    const raw = (await server.chat(user('raw'), { max_tokens: 400 })).json.choices[0].message;
    assert.deepEqual([raw.content, raw.reasoning_content.trim()], ['raw text', 'thought']);
    const cut = await server.chat(user('long'), { max_tokens: 12 });
    assert.equal(cut.json.choices[0].finish_reason, 'length');
    assert.equal(cut.json.usage.completion_tokens, 12);
    const stopped = await server.chat(user('long'), { max_tokens: 400, stop: words(60, 5).split(' ')[9] });
    assert.equal(stopped.json.choices[0].finish_reason, 'stop');
});

test('the other APIs are scripted too', async () => {
    const anthropic = await server.post('/v1/messages', {
        max_tokens: 400,
        messages: user('list the files'),
        tools: [{ name: 'bash', input_schema: parameters }],
    });
    assert.deepEqual(anthropic.json.content.filter((block) => block.type === 'tool_use').map((block) => block.input), [{ command: 'ls -l', count: 1 }, { background: false, command: 'true' }]);
    const responses = await server.post('/v1/responses', { input: 'list the files', tools: [{ type: 'function', name: 'bash', parameters }] });
    assert.deepEqual(responses.json.output.filter((item) => item.type === 'function_call').map((item) => JSON.parse(item.arguments)), [{ command: 'ls -l', count: 1 }, { background: false, command: 'true' }]);
    const text = await server.post('/v1/completions', { prompt: 'once more', max_tokens: 50 });
    assert.equal(text.json.choices[0].text, 'after');
});

test('a script that is wrong or missing is told before the model is loaded', async () => {
    await writeFile(join(folder, 'wrong.jsonl'), '{"answer": {"text": "a"}}\n{"answer": {"txt": "a"}}\n');
    for (const [name, expected] of [['wrong.jsonl', /line 2: txt/], ['nowhere.jsonl', /nowhere\.jsonl/]]) {
        const ended = await runProgram(['serve', '-m', 'nothing.gguf', '--script', join(folder, name)]);
        assert.equal(ended.code, 1);
        assert.match(ended.err, expected);
        assert.match(ended.err, /docs\/script\.md/);
        assert.doesNotMatch(ended.err, /nothing\.gguf/);
    }
});
