// harness - starts and stops real servers for the end-to-end tests, and talks to them by fetch and by raw sockets.
//
// Environment: CAIRN_TEST_PROGRAM (the program), CAIRN_TEST_MODEL (a model file). Ports are free ones; everything started is stopped.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import net from 'node:net';

export const BIN = process.env.CAIRN_TEST_PROGRAM;
export const MODEL = process.env.CAIRN_TEST_MODEL;

// Run the program to its end; gives { code, out, err }.
export function runProgram(args, options = {}) {
    return new Promise((resolve, reject) => {
        const child = spawn(BIN, args, { env: { ...process.env, ...options.env }, stdio: ['ignore', 'pipe', 'pipe'] });
        let out = '';
        let err = '';
        child.stdout.on('data', (piece) => { out += piece; });
        child.stderr.on('data', (piece) => { err += piece; });
        child.on('error', reject);
        child.on('close', (code, signal) => resolve({ code, signal, out, err }));
    });
}

export class Server {
    // Start and wait until it says that it is ready.
    static async start(args = [], env = {}) {
        const server = new Server();
        server.log = '';
        server.lines = [];
        server.waiters = [];
        server.child = spawn(BIN, ['serve', '-m', MODEL, '--port', '0', '-t', process.env.CAIRN_TEST_THREADS ?? '1', '--log-format', 'json', ...(args.includes('--cache-disk') || env.CAIRN_TEST_DISK_DEFAULT ? [] : ['--no-cache-disk']), ...args],
            { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
        server.ended = new Promise((resolve) => {
            server.child.on('close', (code, signal) => resolve({ code, signal }));
        });
        server.child.stderr.on('data', (piece) => server.take(String(piece)));
        let out = '';
        server.port = await new Promise((resolve, reject) => {
            server.child.stdout.on('data', (piece) => {
                out += piece;
                const ready = /cairn is ready: http:\/\/[^:]+:(\d+)/.exec(out);
                if (ready) {
                    resolve(Number(ready[1]));
                }
            });
            server.ended.then((end) => reject(new Error(`the server ended: ${JSON.stringify(end)}\n${server.log}`)));
        });
        server.url = `http://127.0.0.1:${server.port}`;
        server.started = () => out;
        return server;
    }

    take(text) {
        this.log += text;
        const parts = this.log.split('\n');
        for (const line of parts.slice(this.lines.length, -1)) {
            let event = { event: 'text', line };
            try {
                event = JSON.parse(line);
            } catch {
                // a line that is not ours
            }
            this.lines.push(event);
        }
        for (const waiter of [...this.waiters]) {
            const found = this.lines.find(waiter.match);
            if (found) {
                this.waiters.splice(this.waiters.indexOf(waiter), 1);
                waiter.resolve(found);
            }
        }
    }

    // The first log event that matches, now or later.
    waitForLog(match) {
        const found = this.lines.find(match);
        if (found) {
            return Promise.resolve(found);
        }
        return new Promise((resolve) => this.waiters.push({ match, resolve }));
    }

    requests() {
        return this.lines.filter((line) => line.event === 'request');
    }

    // The log line of the newest request that `headers` may see. It is written before the answer, and may be read after it.
    async newest(headers = {}) {
        const { requests } = (await this.get('/cairn/requests', headers)).json;
        return this.waitForLog((line) => line.event === 'request' && line.id === requests[0].id);
    }

    async stop(signal = 'SIGTERM') {
        if (this.child.exitCode === null && this.child.signalCode === null) {
            this.child.kill(signal);
        }
        return this.ended;
    }

    async get(path, headers = {}) {
        const response = await fetch(this.url + path, { headers });
        const text = await response.text();
        let json = null;
        try {
            json = JSON.parse(text);
        } catch {
            // not JSON
        }
        return { status: response.status, headers: response.headers, text, json };
    }

    async post(path, body, options = {}) {
        const response = await fetch(this.url + path, {
            method: options.method ?? 'POST',
            headers: { 'content-type': 'application/json', ...options.headers },
            body: typeof body === 'string' || body === undefined ? body : JSON.stringify(body),
            signal: options.signal,
        });
        const text = await response.text();
        let json = null;
        try {
            json = JSON.parse(text);
        } catch {
            // a stream
        }
        return { status: response.status, headers: response.headers, text, json };
    }

    chat(messages, fields = {}) {
        return this.post('/v1/chat/completions', { messages, temperature: 0, max_tokens: 8, ...fields });
    }

    // Send bytes on a connection of their own; gives all that comes back until the server closes, or `until` matches.
    raw(bytes, until = null) {
        return new Promise((resolve, reject) => {
            const socket = net.connect(this.port, '127.0.0.1', () => socket.write(bytes));
            let text = '';
            socket.setTimeout(20000, () => socket.destroy(new Error(`no answer to ${JSON.stringify(bytes.slice(0, 80))}; got ${text}`)));
            socket.on('data', (piece) => {
                text += piece;
                if (until && until.test(text)) {
                    socket.destroy();
                    resolve(text);
                }
            });
            socket.on('close', () => resolve(text));
            socket.on('error', reject);
        });
    }
}

// A request that keeps its slot: nobody reads its answer, and that is more than all buffers on the way hold. Gives a function
// that hangs up.
export async function holdSlot(server, headers = {}) {
    const stop = new AbortController();
    const body = { prompt: words(30, 1), n_predict: 3500, n_probs: 20, ignore_eos: true, stream: true };
    const response = await fetch(`${server.url}/completion`, { method: 'POST', headers, body: JSON.stringify(body), signal: stop.signal });
    assert.equal(response.status, 200);
    return () => stop.abort();
}

// A port that is free, below those that the system gives to connections and to port 0: nobody takes it by chance meanwhile.
export async function freePort() {
    for (;;) {
        const port = 20000 + Math.floor(Math.random() * 12000);
        const server = net.createServer();
        const free = await new Promise((resolve) => {
            server.once('error', () => resolve(false));
            server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
        });
        if (free) {
            return port;
        }
    }
}

// A number of GET /metrics.
export async function metric(server, name, headers = {}) {
    const found = new RegExp(`^cairn_${name} ([0-9.e+]+)$`, 'm').exec((await server.get('/metrics', headers)).text);
    return found ? Number(found[1]) : undefined;
}

// The events of a stream's text: objects, and '[DONE]' at the end.
export function eventsOf(text) {
    return text.split('\n\n').filter((part) => part.startsWith('data: '))
        .map((part) => part.slice(6)).map((data) => (data === '[DONE]' ? data : JSON.parse(data)));
}

// The message that a stream's deltas add up to.
export function messageOf(events) {
    const message = { content: '', reasoning_content: '', tool_calls: [] };
    for (const event of events) {
        const delta = event.choices?.[0]?.delta ?? {};
        message.content += delta.content ?? '';
        message.reasoning_content += delta.reasoning_content ?? '';
        for (const call of delta.tool_calls ?? []) {
            message.tool_calls[call.index] ??= { id: '', function: { name: '', arguments: '' } };
            const whole = message.tool_calls[call.index];
            whole.id += call.id ?? '';
            whole.function.name += call.function?.name ?? '';
            whole.function.arguments += call.function?.arguments ?? '';
        }
    }
    return message;
}

// `count` words of plain text, the same for the same seed.
export function words(count, seed = 1) {
    let state = (seed * 2654435761 + 12345) >>> 0;
    const list = ['river', 'stone', 'light', 'under', 'seven', 'garden', 'paper', 'window', 'cold', 'north', 'apple', 'train',
        'music', 'table', 'slow', 'green', 'letter', 'winter', 'road', 'small'];
    const out = [];
    for (let i = 0; i < count; i++) {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        out.push(list[state >>> 8 & 1023 ? (state >>> 8) % list.length : 0]);
    }
    return out.join(' ');
}
