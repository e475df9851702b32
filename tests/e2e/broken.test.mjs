// A stream that breaks: each SDK tells its user, in each API, whole answers and streams. The server is stopped in the middle.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { Server, words } from './harness.mjs';

const model = 'm';
const LONG = { max_tokens: 30000, ignore_eos: true, temperature: 0 };
const user = [{ role: 'user', content: words(20, 1) }];

// Start a stream, stop the server after its first events; gives what was thrown and what came.
async function broken(open) {
    const server = await Server.start(['-c', '32768', '--cache-ram', '64M', '--drain', '0', '--alias', model]);
    const seen = [];
    try {
        const stream = await open(server);
        for await (const event of stream) {
            seen.push(event);
            if (seen.length === 12) {
                void server.stop();
            }
        }
        return { seen, error: null };
    } catch (error) {
        return { seen, error };
    } finally {
        await server.stop();
    }
}

const openai = (server) => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'x', maxRetries: 0 });

test('chat and completions: the OpenAI SDK throws what the server said', async () => {
    for (const open of [(server) => openai(server).chat.completions.create({ model, messages: user, stream: true, ...LONG }),
        (server) => openai(server).completions.create({ model, prompt: 'a', stream: true, ...LONG })]) {
        const { seen, error } = await broken(open);
        assert.ok(seen.length >= 12);
        assert.ok(error instanceof OpenAI.APIError, String(error));
        assert.match(error.message, /stopped/);
    }
});

test('messages: the Anthropic SDK throws what the server said', async () => {
    const { seen, error } = await broken((server) => new Anthropic({ baseURL: server.url, apiKey: 'x', maxRetries: 0 }).messages.create({ model, messages: user, stream: true, ...LONG }));
    assert.ok(seen.length >= 12);
    assert.ok(error instanceof Anthropic.APIError, String(error));
    assert.match(error.message, /overloaded_error|stopped/);
});

test('responses: the last event is response.failed, with the reason', async () => {
    const { seen } = await broken((server) => openai(server).responses.create({ model, input: 'a', stream: true, max_output_tokens: 30000, reasoning: { effort: 'none' }, ignore_eos: true }));
    const last = seen.at(-1);
    assert.equal(last.type, 'response.failed');
    assert.equal(last.response.status, 'failed');
    assert.match(last.response.error.message, /stopped/);
    assert.equal(last.sequence_number, seen.length - 1);
});
