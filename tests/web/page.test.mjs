// The page in a real browser: a conversation is edited and its bars show the resume; keyboard, phone, dark, many nodes, keys.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { mkdtemp, rm } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { Server, freePort, words } from '../e2e/harness.mjs';
import { barOf, launch, needBrowser, openPage, send } from './browser.mjs';

needBrowser();

let server;
let browser;
const OPTIONS = ['-c', '8192', '--cache-ram', '256M'];

before(async () => {
    server = await Server.start(OPTIONS);
    browser = await launch();
});

after(async () => {
    await browser?.close();
    await server?.stop();
});

const noProblems = (page) => assert.deepEqual(page.problems, []);

test('an edited message is resumed, and the bars say so', async () => {
    const page = await openPage(browser, server.url);
    await page.fill('#length', '8');
    const first = await send(page, words(400, 1));
    const cold = await barOf(first);
    assert.ok(cold.least > 400, JSON.stringify(cold));
    assert.equal(cold.reused ?? 0, 0);
    await send(page, words(300, 2));
    const last = page.locator('.message.user').last();
    await last.getByRole('button', { name: 'Edit' }).click();
    await last.locator('textarea').fill(words(50, 3));
    await last.getByRole('button', { name: 'Send the edited message' }).click();
    await page.locator('.message.user').last().getByText('2 of 2').waitFor();
    const edited = page.locator('.message.assistant').last();
    await edited.locator('.served').waitFor();
    const warm = await barOf(edited);
    assert.ok((warm.reused ?? 0) + (warm.restored ?? 0) > 400, JSON.stringify(warm));
    assert.ok((warm.beyond ?? 0) < 64, JSON.stringify(warm));

    // The same request in the list, with the two texts side by side.
    const top = page.locator('.requests > li').first();
    await top.locator('button.request').waitFor();
    await assert.doesNotReject(page.waitForFunction(() => document.querySelectorAll('.requests > li').length >= 3));
    const shown = await barOf(top);
    assert.deepEqual(shown, warm);
    await top.locator('button.request').click();
    await top.locator('.sides .known').waitFor();
    const { requests } = (await server.get('/cairn/requests')).json;
    assert.equal(await top.locator('.sides .given mark').textContent(), requests[0].cairn.excerpt.given);
    assert.notEqual(requests[0].cairn.excerpt.given, requests[0].cairn.excerpt.known);
    const one = (await server.get(`/cairn/requests/${requests[0].id}`)).json;
    assert.deepEqual(one, requests[0]);

    // Back to the first version: nothing was lost, so next to nothing is read.
    await page.locator('.message.user').last().getByRole('button', { name: 'Earlier version' }).click();
    await page.locator('.message.assistant').last().getByRole('button', { name: 'Regenerate' }).click();
    await page.locator('.message.assistant').last().getByText('2 of 2').waitFor();
    await page.locator('.message.assistant').last().locator('.served').waitFor();
    const back = await barOf(page.locator('.message.assistant').last());
    assert.ok((back.reused ?? 0) + (back.restored ?? 0) > 700, JSON.stringify(back));
    noProblems(page);
    await page.context().close();
});

test('the tree shows the branches, and the keyboard walks it', async () => {
    const page = await openPage(browser, server.url);
    const canvas = page.locator('.tree canvas');
    await canvas.waitFor({ state: 'visible' });
    const painted = await canvas.evaluate((c) => {
        const { data } = c.getContext('2d').getImageData(0, 0, c.width, c.height);
        return new Set(Array.from({ length: data.length / 4 }, (_, i) => `${data[4 * i]},${data[4 * i + 1]},${data[4 * i + 2]}`)).size;
    });
    assert.ok(painted > 3, `${painted} colours`);
    await canvas.focus();
    await page.keyboard.press('ArrowRight');
    const about = page.locator('#paths-about');
    await about.filter({ hasText: 'Tokens 0 to' }).waitFor();
    await page.keyboard.press('ArrowRight');
    await about.filter({ hasNotText: 'Tokens 0 to' }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Show all' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Show all' }).waitFor({ state: 'detached' });
    noProblems(page);
    await page.context().close();
});

test('everything can be reached with the Tab key', async () => {
    const page = await openPage(browser, server.url);
    await page.locator('button.request').first().waitFor();
    await page.locator('canvas[tabindex="0"]').waitFor(); // the tree comes with a message of its own
    const seen = new Set();
    for (let i = 0; i < 40; i++) {
        await page.keyboard.press('Tab');
        seen.add(await page.evaluate(() => document.activeElement.id || document.activeElement.className || document.activeElement.tagName));
    }
    for (const name of ['skip', 'CANVAS', 'draft', 'length', 'request']) {
        assert.ok(seen.has(name), `${name} in ${[...seen].join(' ')}`);
    }
    await page.context().close();
});

for (const [name, options] of [['phone', { viewport: { width: 360, height: 740 } }], ['dark', { colorScheme: 'dark' }]]) {
    test(`${name}: nothing is wider than the screen, and there are no errors`, async () => {
        const page = await openPage(browser, server.url, options);
        await page.locator('button.request').first().click();
        await page.locator('.detail').waitFor();
        const { wide, all, back } = await page.evaluate(() => ({
            wide: document.documentElement.scrollWidth, all: document.documentElement.clientWidth, back: getComputedStyle(document.documentElement).backgroundColor,
        }));
        assert.ok(wide <= all, `${wide} of ${all}`);
        const light = Number(/\d+/.exec(back)[0]) > 128;
        assert.equal(light, name !== 'dark');
        noProblems(page);
        await page.context().close();
    });
}

test('a page that is left behind finds its server again', async () => {
    const options = [...OPTIONS, '--port', String(await freePort())];
    const own = await Server.start(options);
    const page = await openPage(browser, own.url);
    await page.getByText('connected', { exact: true }).waitFor();
    await own.stop();
    await page.getByText('trying again').waitFor();
    const again = await Server.start(options);
    await page.getByText('connected', { exact: true }).waitFor();
    await again.stop();
    await page.context().close();
});

test('ten thousand nodes stay usable', async () => {
    const page = await openPage(browser, server.url);
    const nodes = [{ depth: 0, begin: 0, end: 0, rows: 0, row_bytes: 0, state_bytes: 0, idle_ms: 1 }];
    for (let i = 0; nodes.length < 10000; i++) {
        for (let depth = 1; depth <= 1 + (i % 7); depth++) {
            nodes.push({ depth, begin: (depth - 1) * 500, end: depth * 500, rows: i % 3 ? 500 : 0, row_bytes: 1, state_bytes: 1, idle_ms: i, count_states: 1, states: [[depth * 500, i % 50]] });
        }
    }
    await page.route('**/cairn/events', (route) => route.fulfill({
        contentType: 'text/event-stream',
        body: `event: hello\ndata: {"version":"x","model":"m","slots":1,"slot_tokens_max":8192,"keyed":false}\n\nevent: cache\ndata: ${JSON.stringify({ tree: { nodes, total: nodes.length, cut: true } })}\n\n`,
    }));
    await page.reload();
    await page.getByText('9,999 pieces and more').waitFor();
    const canvas = page.locator('.tree canvas');
    await canvas.hover({ position: { x: 30, y: 200 } });
    await page.locator('#paths-about').filter({ hasText: 'Tokens' }).waitFor();
    await page.context().close();
});

test('after a restart the page shows what is on disk', async () => {
    const folder = await mkdtemp(`${process.env.TMPDIR ?? '/tmp'}/cairn-web-disk-`);
    const options = [...OPTIONS, '--cache-disk', `${folder}:256M`];
    const conversation = (seed) => [{ role: 'system', content: `Conversation of two branches. ${words(500, 1)}` }, { role: 'user', content: words(400, seed) }];
    let other = await Server.start(options);
    try {
        for (const seed of [2, 3]) {
            await other.chat(conversation(seed), { max_tokens: 4 });
        }
        await other.chat(conversation(4), { max_tokens: 4, cache_salt: 'another namespace' });
        await other.stop();
        other = await Server.start(options);
        const { tree } = (await other.get('/cairn/cache/disk')).json;
        // Both conversations begin with one file of their common system text; the other namespace has a file of its own.
        assert.equal(tree.nodes.filter((node) => node.depth === 1 && node.begin === 0).length, 1, JSON.stringify(tree));
        assert.ok(tree.nodes.filter((node) => node.end > 900 && node.row_bytes > 0).length >= 2);
        assert.ok(tree.nodes.some((node) => node.count_states > 0));
        const foreign = await fetch(`${other.url}/cairn/cache`).then((response) => response.json());
        assert.equal(foreign.tree.nodes.length <= 1, true); // nothing of it is in memory yet
        const page = await openPage(browser, other.url);
        await page.getByText('Nothing is known yet').waitFor();
        await page.getByRole('button', { name: 'disk', exact: true }).click();
        const canvas = page.locator('.tree canvas');
        await canvas.waitFor({ state: 'visible' });
        await canvas.hover({ position: { x: 20, y: 10 } });
        await page.locator('#paths-about').filter({ hasText: /on disk\. Rows of [\d,]+ tokens, .* in files/ }).waitFor();
        await page.getByRole('button', { name: 'slots and memory' }).click();
        await page.getByText('Nothing is known yet').waitFor();
        noProblems(page);
        await page.context().close();
    } finally {
        await other.stop();
        await rm(folder, { recursive: true });
    }
});

test('with API keys the page asks for one, and shows what belongs to it only', async () => {
    const folder = await mkdtemp(`${process.env.TMPDIR ?? '/tmp'}/cairn-web-`);
    await writeFile(`${folder}/keys`, 'first-key\nsecond-key\n');
    const own = await Server.start([...OPTIONS, '--api-key-file', `${folder}/keys`]);
    try {
        const secret = { headers: { authorization: 'Bearer first-key' } };
        const body = { messages: [{ role: 'user', content: 'a secret' }], max_tokens: 2 };
        assert.equal((await own.post('/v1/chat/completions', body, secret)).status, 200);
        assert.equal((await own.get('/cairn/events')).status, 401);
        assert.equal((await own.get('/')).status, 200);
        const page = await openPage(browser, own.url);
        await page.getByText('this server asks for an API key').waitFor();
        await page.fill('#key', 'second-key');
        await page.keyboard.press('Enter');
        await page.getByText('connected', { exact: true }).waitFor();
        await page.fill('#length', '2');
        await send(page, 'something else');
        await page.locator('button.request').first().waitFor();
        assert.equal(await page.locator('button.request').count(), 1);
        const seen = await (await fetch(`${own.url}/cairn/cache`, { headers: { authorization: 'Bearer second-key' } })).json();
        assert.equal(seen.held, undefined);
        const tokens = Math.max(...seen.tree.nodes.map((node) => node.end));
        const first = await (await fetch(`${own.url}/cairn/requests/1`, { headers: { authorization: 'Bearer second-key' } })).status;
        assert.equal(first, 404);
        assert.ok(tokens > 0);
        await page.context().close();
    } finally {
        await own.stop();
        await rm(folder, { recursive: true });
    }
});

test('watchers are bounded, and those that leave make room', async () => {
    const stops = [];
    for (let i = 0; i < 40; i++) {
        const control = new AbortController();
        const response = await fetch(`${server.url}/cairn/events`, { signal: control.signal });
        if (response.status === 503) {
            assert.ok(i >= 24, `refused the watcher ${i}`);
            break;
        }
        stops.push(control);
    }
    assert.ok(stops.length <= 32);
    stops.forEach((control) => control.abort());
    for (;;) {
        const control = new AbortController();
        const response = await fetch(`${server.url}/cairn/events`, { signal: control.signal });
        control.abort();
        if (response.status === 200) {
            break;
        }
    }
});
