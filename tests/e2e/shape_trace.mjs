// shape_trace - the recorded traces (traces/README.md), shortened so that a tiny model replays them in seconds.
//
// A text is shortened word by word: a word stays or goes by its own hash, so two texts with a common beginning have one
// afterwards, of about the same part of their length. Dates and versions stay, and in shorter texts every number: they
// are what changes at the head of a prompt. Tool arguments, names and ids are left as they are.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const TEXT_FIELDS = new Set(['content', 'text', 'description', 'thinking', 'reasoning_content', 'output', 'system', 'instructions', 'input']);

function hashOf(word) {
    let hash = 2166136261;
    for (let i = 0; i < word.length; i++) {
        hash = Math.imul(hash ^ word.charCodeAt(i), 16777619) >>> 0;
    }
    return hash;
}

export function shortenText(text, one) {
    const words = text.split(/\s+/);
    if (words.length < 4) {
        return text;
    }
    const numbers = words.length < 400 ? /\d/ : /\d[-./]\d/;
    return words.filter((word, index) => index === 0 || hashOf(word) % one === 0 || (word.length < 24 && numbers.test(word)))
        .map((word) => word.slice(0, 12)).join(' ');
}

function shorten(value, one, field) {
    if (typeof value === 'string') {
        return TEXT_FIELDS.has(field) ? shortenText(value, one) : value;
    }
    if (Array.isArray(value)) {
        return value.map((item) => shorten(item, one, field));
    }
    if (value !== null && typeof value === 'object') {
        return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shorten(item, one, key)]));
    }
    return value;
}

// The requests that the client's server answered, one word in `one` of their texts.
export function readTrace(name, one) {
    const path = fileURLToPath(new URL(`../../traces/${name}.jsonl.zst`, import.meta.url));
    const text = execFileSync(process.env.CAIRN_TEST_PRINT_LINES, [path], { maxBuffer: 1 << 28, encoding: 'utf8' });
    return text.trim().split('\n').map((line) => JSON.parse(line)).filter((entry) => entry.status === 200)
        .map((entry) => ({ ...entry, body: shorten(entry.body, one), resp: shorten(entry.resp, one) }));
}

function callOf(name, args) {
    return { name, arguments: JSON.parse(args || '{}') };
}

function textOf(content) {
    return typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join('');
}

function answerOfItems(items) {
    const answer = { text: '', reasoning: '', calls: [] };
    for (const item of items) {
        if (item.type === 'message') {
            answer.text += textOf(item.content);
        } else if (item.type === 'reasoning') {
            answer.reasoning += textOf(item.summary);
        } else if (item.type === 'function_call') {
            answer.calls.push(callOf(item.namespace ? `${item.namespace}__${item.name}` : item.name, item.arguments));
        }
    }
    return answer;
}

function answerOfBlocks(blocks) {
    const answer = { text: '', reasoning: '', calls: [] };
    for (const block of blocks) {
        if (block.type === 'text') {
            answer.text += block.text;
        } else if (block.type === 'thinking') {
            answer.reasoning += block.thinking;
        } else if (block.type === 'tool_use') {
            answer.calls.push({ name: block.name, arguments: block.input });
        }
    }
    return answer;
}

// The tools that a request offers: { name: schema }.
function schemasOf(tools, space = '') {
    const all = {};
    for (const tool of tools ?? []) {
        const body = tool.function ?? tool;
        if (tool.type === 'namespace') {
            Object.assign(all, schemasOf(tool.tools, `${tool.name}__`));
        } else if (body.name) {
            all[space + body.name] = body.parameters ?? body.input_schema ?? {};
        }
    }
    return all;
}

// Is it a call of a tool that is offered, with arguments that the tool has? Others can't be read back by a parser.
function fits(call, schemas) {
    const schema = schemas[call.name];
    return schema !== undefined && (schema.required ?? []).every((name) => name in call.arguments)
        && Object.keys(call.arguments).every((name) => name in (schema.properties ?? {}));
}

// What the recorded server said to a request, as the answer of a script line (docs/script.md). Calls that don't fit are left out.
export function answerOf(resp, body) {
    const message = resp?.choices?.[0]?.message ?? resp;
    const items = Array.isArray(resp) ? resp : resp?.output;
    let answer;
    if (items) {
        answer = answerOfItems(items);
    } else if (Array.isArray(message?.content)) {
        answer = answerOfBlocks(message.content);
    } else {
        answer = {
            text: message?.content ?? '',
            reasoning: message?.reasoning_content ?? '',
            calls: (message?.tool_calls ?? []).map((call) => callOf(call.function.name, call.function.arguments)),
        };
    }
    const schemas = schemasOf(body.tools);
    answer.calls = answer.calls.filter((call) => fits(call, schemas));
    return Object.fromEntries(Object.entries(answer).filter(([, value]) => value.length > 0));
}
