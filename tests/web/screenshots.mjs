// screenshots - pictures of the page's views, from a real server and a scripted conversation.
//
//   node tests/web/screenshots.mjs FOLDER        CAIRN_TEST_PROGRAM and CAIRN_TEST_MODEL as for the tests
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { Server, words } from '../e2e/harness.mjs';
import { launch, needBrowser, openPage, send } from './browser.mjs';

needBrowser();
const folder = process.argv[2];
if (!folder) {
    console.error('usage: node tests/web/screenshots.mjs FOLDER');
    process.exit(2);
}
await mkdir(folder, { recursive: true });
const disk = await mkdtemp(`${process.env.TMPDIR ?? '/tmp'}/cairn-pictures-`);
const server = await Server.start(['-c', '8192', '--cache-ram', '256M', '--cache-disk', `${disk}:512M`, '--slots', '2', '--alias', 'qwen35-tiny']);
const browser = await launch();

// An agent at work: side requests, dropped results, a changing clock, other conversations.
async function traffic() {
    const system = `You are a careful assistant. ${words(160, 1)}`;
    const turn = (n) => [{ role: 'user', content: words(120 + 10 * n, 10 + n) }, { role: 'assistant', content: words(60, 40 + n) }];
    const history = [];
    for (let n = 0; n < 4; n++) {
        history.push(...turn(n));
        await server.chat([{ role: 'system', content: system }, ...history, { role: 'user', content: words(80, 70 + n) }], { max_tokens: 4 });
    }
    for (let n = 0; n < 3; n++) {
        await server.chat([{ role: 'system', content: system }, ...history.slice(0, 4), { role: 'user', content: words(90, 80 + n) }], { max_tokens: 4 });
    }
    await server.chat([{ role: 'system', content: `It is 12:0${1}. ${system}` }, { role: 'user', content: 'Hello' }], { max_tokens: 4 });
    await server.chat([{ role: 'system', content: 'Give this conversation a title.' }, { role: 'user', content: words(100, 90) }], { max_tokens: 4 });
}

async function shoot(page, name, options = {}) {
    await page.evaluate(() => document.activeElement.blur());
    await page.screenshot({ path: `${folder}/${name}.png`, ...options });
}

const page = await openPage(browser, server.url, { viewport: { width: 1200, height: 860 } });
await traffic();
await page.fill('#length', '48');
await page.getByRole('button', { name: 'Fill in an example' }).click();
await page.locator('#send').click();
await page.locator('.message.assistant .served').waitFor();
await send(page, 'And what can wait until the end of the month?');
const last = page.locator('.message.user').last();
await last.getByRole('button', { name: 'Edit' }).click();
await last.locator('textarea').fill('Which of these need a tool from the valley?');
await last.getByRole('button', { name: 'Send the edited message' }).click();
await page.locator('.message.user').last().getByText('2 of 2').waitFor();
await page.locator('.message.assistant .served').nth(1).waitFor();
await page.waitForFunction(() => document.querySelectorAll('.requests > li').length >= 12);
await page.waitForFunction(() => document.querySelectorAll('.u-series').length > 2);
await page.locator('.tree canvas').hover({ position: { x: 140, y: 30 } });
await shoot(page, 'page', { fullPage: true });
await page.locator('button.request').first().click();
await page.locator('.detail').waitFor();
const box = async (selector, name) => page.locator(selector).screenshot({ path: `${folder}/${name}.png` });
await box('#paths', 'paths');
await box('#requests', 'request');
await box('#chat', 'chat');
for (const [name, options] of [['dark', { colorScheme: 'dark', viewport: { width: 1200, height: 860 } }], ['phone', { viewport: { width: 390, height: 844 } }]]) {
    const other = await openPage(browser, server.url, options);
    await other.locator('button.request').first().waitFor();
    await other.locator('.tree canvas').waitFor({ state: 'visible' });
    await shoot(other, name);
    await other.context().close();
}
await browser.close();
await server.stop();
await rm(disk, { recursive: true });
