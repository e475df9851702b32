// The page's own parts, without a browser: layout of the tree, the conversation's branches, plain words, events.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { add, branchAfter, edit, messagesTo, newConversation, shownPath, step } from '../../web/src/conversation.js';
import { eventParser } from '../../web/src/feed.js';
import { grow, hit, layout, neighbour } from '../../web/src/tree.js';
import { bytes, duration, headline, parts, why } from '../../web/src/words.js';

const node = (depth, begin, end, more = {}) => ({ depth, begin, end, rows: 0, row_bytes: 0, state_bytes: 0, idle_ms: 0, ...more });
const LIST = [node(0, 0, 0), node(1, 0, 100), node(2, 100, 300, { slot: 0 }), node(2, 100, 150, { rows: 50 }), node(3, 150, 200), node(3, 150, 400)];

test('the tree is drawn to scale, children inside their parent', () => {
    const { rects, leaves, begin, end } = layout(grow(LIST));
    assert.equal(leaves, 3);
    assert.deepEqual([begin, end], [0, 400]);
    assert.equal(rects.length, 5);
    for (const r of rects) {
        assert.ok(Math.abs((r.x1 - r.x0) * 400 - (r.node.end - r.node.begin)) < 1e-9);
        const parent = rects.find((one) => one.node === r.parent);
        assert.ok(!parent || (r.y0 >= parent.y0 && r.y1 <= parent.y1 && r.x0 === parent.x1));
    }
});

test('what a slot holds is in the slot up to the root; the rest says where its rows are', () => {
    const tiers = Object.fromEntries(layout(grow(LIST)).rects.map((r) => [`${r.node.begin}-${r.node.end}`, r.tier]));
    assert.deepEqual(tiers, { '0-100': 'slot', '100-300': 'slot', '100-150': 'ram', '150-200': 'known', '150-400': 'known' });
});

test('a subtree can be shown alone, and is found again in the next picture', () => {
    const tree = grow(LIST);
    const name = tree.children[0].children[1].name;
    const next = grow([LIST[0], LIST[1], node(2, 100, 120), ...LIST.slice(2)]);
    const { rects, begin, end } = layout(next, name);
    assert.deepEqual([begin, end], [100, 400]);
    assert.deepEqual(rects.map((r) => r.node.end), [150, 200, 400]);
    assert.equal(layout(next, 'gone').begin, 0);
});

test('nothing, a root alone and missing lists are empty pictures', () => {
    for (const list of [undefined, [], [node(0, 0, 0)]]) {
        assert.equal(layout(grow(list)).rects.length, 0);
    }
});

test('pointing and arrow keys find the neighbours', () => {
    const { rects } = layout(grow(LIST));
    assert.equal(hit(rects, 0.1, 0.5).node.end, 100);
    assert.equal(hit(rects, 0.9, 0.1), null);
    const at = (key, from) => neighbour(rects, from, key);
    const first = at('ArrowRight', null);
    const child = at('ArrowRight', first);
    assert.deepEqual([child.node.begin, child.node.end], [100, 300]);
    assert.equal(at('ArrowDown', child).node.end, 150);
    assert.equal(at('ArrowUp', child), child);
    assert.equal(at('ArrowLeft', child), first);
});

test('an edit is a branch, and the first version comes back', () => {
    const root = newConversation();
    const question = add(root, 'user', 'one');
    const answer = add(question, 'assistant', 'two', { reasoning: 'because' });
    const other = edit(question, 'ONE');
    assert.deepEqual(shownPath(root), [other]);
    step(other, -1);
    assert.deepEqual(shownPath(root), [question, answer]);
    step(question, -5);
    assert.deepEqual(shownPath(root)[0], question);
    assert.deepEqual(messagesTo(answer), [{ role: 'user', content: 'one' }, { role: 'assistant', content: 'two', reasoning_content: 'because' }]);
    const more = add(answer, 'user', 'three');
    branchAfter(answer);
    assert.deepEqual(shownPath(root), [question, answer]);
    assert.equal(answer.children[0], more);
});

const record = (fields) => ({ prompt_tokens: 100, reused: 60, read: 40, least: 30, tier: 'slot', divergence: { position: 70, message: 1, role: 'user' }, reason: { word: 'none', text: 'x', position: 0, bytes: 0 }, ...fields });

test('the four parts of a bar add up to the prompt', () => {
    for (const one of [record({}), record({ tier: 'ram' }), record({ reused: 0, read: 100, least: 100, tier: 'none' }), record({ reused: 99, read: 1, least: 1 })]) {
        assert.equal(parts(one).reduce((sum, part) => sum + part.tokens, 0), 100);
    }
    assert.deepEqual(parts(record({ tier: 'disk' })).map((part) => part.tokens), [0, 60, 10, 30]);
});

test('numbers and reasons are in plain words', () => {
    assert.equal(bytes(1536), '1.5 KiB');
    assert.equal(bytes(3 * 1024 ** 3), '3.0 GiB');
    assert.equal(duration(0.2), 'less than 1 ms');
    assert.equal(duration(12345), '12 s');
    assert.equal(headline(record({})), 'Reused 60 of 100 tokens, read 40');
    assert.match(why(record({ reason: { word: 'evicted', text: 'the nearer state was dropped', position: 80, bytes: 5 } })), /^The nearer state was dropped \(the state after 80 tokens\)\.$/);
    const never = { word: 'never-taken', text: 'no state was saved nearer', position: 70, bytes: 0 };
    assert.equal(why(record({ reason: never })), 'Resumed 10 tokens before the change; no state was saved nearer.');
    assert.equal(why(record({ reused: 20, read: 80, reason: never })), 'Resumed 50 tokens before the change; no state was saved nearer.');
    assert.equal(why(record({ reused: 93, read: 7, least: 1, divergence: { position: 100 }, reason: never })), 'Resumed 6 tokens before the end; no state was saved nearer.');
    assert.match(why(record({ reused: 0, read: 100, least: 97, divergence: { position: 3 }, reason: never })), /^A new conversation/);
});

test('events cut anywhere give the same events', () => {
    const text = 'event: a\ndata: {"x":1}\n\n: ping\n\ndata: [DONE]\n\n';
    for (let cut = 0; cut <= text.length; cut++) {
        const got = [];
        const parse = eventParser((one) => got.push(one));
        parse(text.slice(0, cut));
        parse(text.slice(cut));
        assert.deepEqual(got, [{ event: 'a', data: '{"x":1}' }, { event: 'message', data: '[DONE]' }]);
    }
});
