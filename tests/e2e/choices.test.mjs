// Several answers of one request, and how probable their tokens were: with the npm package `openai`, whole and streamed.
//
// The model's weights are random: what it says is arbitrary, so only what holds for every answer is looked at.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { Server, eventsOf, words } from './harness.mjs';

let server;
let client;
const model = 'test-model';
const MESSAGES = [{ role: 'system', content: 'You are brief.' }, { role: 'user', content: words(300, 2) }];
// The same bits however a prompt was read: what is compared is asked for in this mode.
const EXACT = { cairn: { resume: 'exact', explain: true } };
const FREE = { temperature: 1.5, top_p: 1, seed: 5, chat_template_kwargs: { enable_thinking: false }, ignore_eos: true };

before(async () => {
    server = await Server.start(['-c', '4096', '--slots', '2', '--cache-ram', '256M', '--alias', model]);
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
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

// The texts of a stream's choices, by index.
function textsOf(chunks) {
    const texts = [];
    for (const chunk of chunks) {
        for (const choice of chunk.choices) {
            texts[choice.index] = (texts[choice.index] ?? '') + (choice.delta?.content ?? choice.text ?? '');
        }
    }
    return texts;
}

test('n choices of one chat: the prompt is read once, whole and streamed are the same', async () => {
    const once = await client.chat.completions.create({ model, messages: MESSAGES, n: 4, max_tokens: 2, ...FREE, cairn: { explain: true, cache_salt: 'n' } });
    assert.equal(once.cairn.choices.length, 4);
    assert.equal(once.cairn.choices[0].reused, 0);
    for (const later of once.cairn.choices.slice(1)) {
        assert.ok(later.read <= later.least + 8, JSON.stringify(later));
    }
    const request = { model, messages: MESSAGES, n: 4, max_tokens: 9, ...FREE, ...EXACT };
    const whole = await client.chat.completions.create(request);
    assert.deepEqual(whole.choices.map((choice) => choice.index), [0, 1, 2, 3]);
    assert.equal(new Set(whole.choices.map((choice) => choice.message.content)).size, 4, 'they differ');
    assert.equal(whole.usage.completion_tokens, 36);
    assert.equal(whole.usage.prompt_tokens, whole.cairn.prompt_tokens);
    const chunks = await collect(await client.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } }));
    assert.deepEqual(textsOf(chunks), whole.choices.map((choice) => choice.message.content));
    for (let index = 0; index < 4; index++) {
        const own = chunks.filter((chunk) => chunk.choices[0]?.index === index);
        assert.equal(own[0].choices[0].delta.role, 'assistant');
        assert.equal(own.filter((chunk) => chunk.choices[0].finish_reason).length, 1);
        assert.equal(own.at(-1).choices[0].finish_reason, 'length');
    }
    assert.equal(chunks.filter((chunk) => chunk.usage).length, 1);
    assert.equal(chunks.at(-1).usage.completion_tokens, 36);
    assert.equal(chunks.at(-1).usage.prompt_tokens, whole.usage.prompt_tokens);
    const alone = await client.chat.completions.create({ ...request, n: 1 });
    assert.equal(alone.choices[0].message.content, whole.choices[0].message.content);
});

test('several prompts, as texts, tokens and both, are answered in their order', async () => {
    const texts = [words(40, 11), words(50, 12), words(60, 13)];
    const fields = { model, max_tokens: 5, temperature: 0, ignore_eos: true, ...EXACT };
    const tokens = (await server.post('/tokenize', { content: texts[1], add_special: true })).json.tokens;
    const single = [];
    for (const prompt of texts) {
        single.push(await client.completions.create({ ...fields, prompt }));
    }
    const together = await client.completions.create({ ...fields, prompt: texts });
    assert.deepEqual(together.choices.map((choice) => choice.text), single.map((answer) => answer.choices[0].text));
    assert.equal(together.usage.prompt_tokens, single.reduce((sum, answer) => sum + answer.usage.prompt_tokens, 0));
    assert.equal(together.usage.completion_tokens, 15);
    const mixed = await client.completions.create({ ...fields, prompt: [texts[0], tokens], n: 2, echo: true });
    assert.deepEqual(mixed.choices.map((choice) => choice.index), [0, 1, 2, 3]);
    assert.equal(mixed.choices[1].text, texts[0] + single[0].choices[0].text);
    assert.equal(mixed.choices[2].text, texts[1] + single[1].choices[0].text);
    const arrays = await client.completions.create({ ...fields, prompt: [tokens, tokens.slice(0, 9)] });
    assert.equal(arrays.choices[0].text, single[1].choices[0].text);
    const one = await client.completions.create({ ...fields, prompt: tokens });
    assert.equal(one.choices.length, 1);
    const chunks = await collect(await client.completions.create({ ...fields, prompt: texts, stream: true }));
    assert.deepEqual(textsOf(chunks), single.map((answer) => answer.choices[0].text));
    const llama = await server.post('/completion', { prompt: texts, n_predict: 5, temperature: 0, ignore_eos: true, ...EXACT });
    assert.deepEqual(llama.json.map((answer) => answer.content), single.map((answer) => answer.choices[0].text));
});

test('a prompt in a list that is wrong is named', async () => {
    const bad = async (prompt, param) => {
        await assert.rejects(client.completions.create({ model, prompt, max_tokens: 1 }),
            (error) => error instanceof OpenAI.BadRequestError && error.param === param && error.message.includes(param));
    };
    await bad(['a', { text: 'b' }], 'prompt[1]');
    await bad([['a'], [1, 2, -1]], 'prompt[1][2]');
    await bad(['a', []], 'prompt[1]');
    await bad([], 'prompt');
    await assert.rejects(client.completions.create({ model, prompt: 'a', n: 500 }), (error) => error.param === 'n');
    await assert.rejects(client.completions.create({ model, prompt: Array(60).fill('a'), n: 4 }), (error) => error.param === 'n');
    await assert.rejects(client.completions.create({ model, prompt: ['a', words(5000, 1)] }), (error) => error.code === 'context_length_exceeded');
});

test('chat: logprobs are those of the tokens, whole and streamed', async () => {
    const request = { model, messages: MESSAGES, max_tokens: 8, logprobs: true, top_logprobs: 3, ...FREE, temperature: 0, ...EXACT };
    const { choices: [choice] } = await client.chat.completions.create(request);
    const { content } = choice.logprobs;
    assert.equal(content.length, 8);
    for (const entry of content) {
        assert.equal(entry.top_logprobs.length, 3);
        assert.equal(entry.token, entry.top_logprobs[0].token, 'greedy');
        assert.ok(entry.logprob <= 0 && Math.abs(entry.logprob - entry.top_logprobs[0].logprob) < 1e-6);
        assert.ok(entry.top_logprobs[0].logprob >= entry.top_logprobs[1].logprob && entry.top_logprobs[1].logprob >= entry.top_logprobs[2].logprob);
        assert.equal(Buffer.from(entry.bytes).toString(), entry.token);
    }
    assert.ok(content.map((entry) => entry.token).join('').endsWith(choice.message.content));
    const chunks = await collect(await client.chat.completions.create({ ...request, stream: true }));
    const streamed = chunks.flatMap((chunk) => chunk.choices[0]?.logprobs?.content ?? []);
    assert.deepEqual(streamed, content);
    const runner = await client.chat.completions.stream(request).finalChatCompletion();
    assert.deepEqual(runner.choices[0].logprobs.content, content);
    const none = await client.chat.completions.create({ ...request, logprobs: false, top_logprobs: undefined });
    assert.equal(none.choices[0].logprobs, null);
    await assert.rejects(client.chat.completions.create({ ...request, logprobs: undefined }), (error) => error.param === 'top_logprobs');
    await assert.rejects(client.chat.completions.create({ ...request, top_logprobs: 21 }), (error) => error.param === 'top_logprobs');
});

test('the probabilities of a whole vocabulary add up', async () => {
    const one = await server.post('/completion', { prompt: words(30, 4), n_predict: 1, n_probs: 20, temperature: 0 });
    const [entry] = one.json.completion_probabilities;
    const sum = entry.top_logprobs.reduce((total, top) => total + Math.exp(top.logprob), 0);
    assert.ok(sum > 0 && sum <= 1);
    // forbid the best twenty: the next one is less probable than each of them
    const logit_bias = entry.top_logprobs.map((top) => [top.id, false]);
    const next = (await server.post('/completion', { prompt: words(30, 4), n_predict: 1, n_probs: 1, temperature: 0, logit_bias })).json;
    assert.ok(next.completion_probabilities[0].logprob <= entry.top_logprobs.at(-1).logprob);
    assert.ok(!entry.top_logprobs.some((top) => top.id === next.completion_probabilities[0].id));
});

test('completions: logprobs have tokens, offsets and the most probable ones', async () => {
    // exact: asked again, it resumes, and its numbers are the same to the last bit
    const request = { model, prompt: words(20, 7), max_tokens: 6, logprobs: 2, temperature: 0, ignore_eos: true, cairn: { resume: 'exact' } };
    const { choices: [choice] } = await client.completions.create(request);
    const { tokens, token_logprobs, top_logprobs, text_offset } = choice.logprobs;
    assert.equal(tokens.join(''), choice.text);
    assert.equal(token_logprobs.length, 6);
    tokens.forEach((token, at) => {
        assert.equal(choice.text.slice(text_offset[at], text_offset[at] + token.length), token);
        assert.equal(top_logprobs[at][token], token_logprobs[at]);
    });
    const chunks = await collect(await client.completions.create({ ...request, stream: true }));
    const parts = chunks.map((chunk) => chunk.choices[0]?.logprobs).filter(Boolean);
    assert.deepEqual(parts.flatMap((part) => part.tokens), tokens);
    assert.deepEqual(parts.flatMap((part) => part.text_offset), text_offset);
    const bare = await client.completions.create({ ...request, logprobs: 0 });
    assert.deepEqual(bare.choices[0].logprobs.token_logprobs, token_logprobs);
    assert.deepEqual(bare.choices[0].logprobs.top_logprobs, tokens.map(() => ({})));
    await assert.rejects(client.completions.create({ ...request, echo: true }), (error) => error.param === 'logprobs');
    // behind a stop text nothing is told
    const stop = tokens[3];
    const cut = await client.completions.create({ ...request, stop });
    assert.equal(cut.choices[0].logprobs.tokens.join(''), choice.text.slice(0, choice.text.indexOf(stop)));
});

test('a client that leaves between two choices stops the rest', async () => {
    const control = new AbortController();
    const before = server.requests().length;
    const stream = await client.chat.completions.create({ model, messages: MESSAGES, n: 100, max_tokens: 200, stream: true, ...FREE }, { signal: control.signal });
    for await (const chunk of stream) {
        if (chunk.choices[0]?.index === 1) {
            control.abort();
            break;
        }
    }
    await server.waitForLog((line) => line.event === 'request' && line.end === 'stopped' && server.requests().indexOf(line) >= before);
    assert.ok(server.requests().length < before + 20);
});

test('a text with a gap is filled, by suffix and by /infill', async () => {
    const asked = { prompt: 'def add(a, b):\n', suffix: '\n    return c', max_tokens: 4, temperature: 0, ...EXACT };
    const filled = await client.completions.create({ model, ...asked });
    const infill = await server.post('/infill', { input_prefix: asked.prompt, input_suffix: asked.suffix, n_predict: 4, temperature: 0, ...EXACT });
    assert.equal(infill.status, 200, infill.text);
    assert.equal(infill.json.content, filled.choices[0].text);
    const more = await server.post('/infill', { input_prefix: asked.prompt, input_suffix: asked.suffix, input_extra: [{ filename: 'a.py', text: words(30, 1) }], prompt: '    c', n_predict: 1 });
    assert.ok(more.json.tokens_evaluated > infill.json.tokens_evaluated + 30);
    const events = eventsOf((await server.post('/infill', { input_prefix: 'a', input_suffix: 'b', n_predict: 3, ignore_eos: true, stream: true })).text);
    assert.equal(events.at(-1).stop, true);
    for (const [body, param] of [[{ input_suffix: 'b' }, 'input_prefix'], [{ input_prefix: 'a' }, 'input_suffix'], [{ input_prefix: 'a', input_suffix: 'b', input_extra: [{}] }, 'input_extra[0]']]) {
        const refused = await server.post('/infill', body);
        assert.equal(refused.status, 400);
        assert.equal(refused.json.error.param, param);
    }
    const several = await server.post('/v1/completions', { prompt: ['a', 'b'], suffix: 'c' });
    assert.equal(several.json.error.param, 'suffix');
});
