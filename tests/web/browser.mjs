// browser - Debian's chromium through playwright-core, for the tests of the page and its screenshots.
import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core'; // 1.61: newer ones ask for node 20, and Debian 12's own is 18

const PLACES = process.env.CAIRN_CHROMIUM ? [process.env.CAIRN_CHROMIUM] : ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const FLAGS = ['--no-sandbox', '--disable-background-networking', '--disable-component-update', '--disable-domain-reliability', '--no-first-run',
    '--no-default-browser-check', '--disable-sync', '--metrics-recording-only', '--disable-gpu', '--disable-dev-shm-usage', '--force-color-profile=srgb'];

// The browser's path; null: none is installed.
export const browserPath = PLACES.find((place) => existsSync(place)) ?? null;

// Without a browser: end with 77 (skipped), or with 1 where CAIRN_WEB_TESTS=1 asks for the tests.
export function needBrowser() {
    if (browserPath) {
        return;
    }
    console.log('The tests of the page need a browser: apt-get install chromium, or CAIRN_CHROMIUM=/path/to/chromium. Skipped.');
    process.exit(process.env.CAIRN_WEB_TESTS === '1' ? 1 : 77);
}

export const launch = () => chromium.launch({ executablePath: browserPath, args: FLAGS, headless: true });

// A page whose console errors, failed requests and requests to elsewhere are collected in `page.problems`.
export async function openPage(browser, url, options = {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: 'light', ...options });
    const page = await context.newPage();
    page.problems = [];
    page.on('console', (message) => {
        if (message.type() === 'error' || message.type() === 'warning') {
            page.problems.push(`console: ${message.text()}`);
        }
    });
    page.on('pageerror', (error) => page.problems.push(`error: ${error.message}`));
    page.on('request', (request) => {
        const to = request.url();
        if (!to.startsWith(url) && !to.startsWith('data:')) {
            page.problems.push(`request to ${to}`);
        }
    });
    await page.goto(`${url}/`);
    return page;
}

// Type a message, send it, and wait until its answer is whole; gives the message's element.
export async function send(page, text) {
    const before = await page.locator('.message.assistant .served').count();
    await page.fill('#draft', text);
    await page.click('#send');
    await page.locator('.message.assistant .served').nth(before).waitFor();
    await page.locator('#chat button', { hasText: 'Stop' }).waitFor({ state: 'detached' });
    return page.locator('.message.assistant').last();
}

// The parts of a bar: { reused, restored, beyond, least } in tokens.
export async function barOf(locator) {
    return locator.locator('.bar').first().evaluate((bar) => Object.fromEntries([...bar.children].map((part) => [part.dataset.part, Number(part.dataset.tokens)])));
}
