// The browser of the tests, and what several tests do with it.

import { strict as assert } from "node:assert";
import { execFileSync } from "node:child_process";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(`${process.cwd()}/target/web/node_modules/`);
const { chromium } = require("playwright-core");

/** Milliseconds in which the page must show what a test waits for. A debug build on a busy machine
 *  needs most of it for a boot. */
export const TIMEOUT = 60000;

const PRESSED = `${process.env.ZONES_WEB_SCRATCH}/pressed`;
const SHOTS = process.env.ZONES_WEB_SHOTS;

/** Starts the browser and opens a page that fails the test on any error of a script, and on any
 *  request that its Content-Security-Policy refuses. */
export async function open(url, options = {}) {
    const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ignoreHTTPSErrors: true, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(TIMEOUT);
    const faults = [];
    page.on("pageerror", error => faults.push(`error: ${error.message}`));
    page.on("console", line => {
        if (line.type() === "error" && !/favicon|401|po\.js|404/.test(line.text()))
            faults.push(`console: ${line.text()}`);
    });
    await page.goto(url);
    return { browser, page, faults };
}

/** Returns the address of the page without Cockpit's frame. */
export const alone = url => `${url}/cockpit/@localhost/zones/index.html`;

export async function shot(page, name) {
    await page.screenshot({ path: `${SHOTS}/${name}.png` });
}

/** Runs a program of zones and returns its output. */
export function zones(program, ...words) {
    return execFileSync(`${process.env.ZONES_BIN}/${program}`, words, { encoding: "utf8" });
}

/** Clicks a button of the page. */
export async function press(frame, action, within = "") {
    pressed.add(action);
    await frame.click(`${within} [data-act="${action}"]`.trim());
}

/** The buttons that were pressed. */
export const pressed = new Set();

/** Answers the dialog that is open. */
export async function answer(frame, values = {}) {
    for (const [name, value] of Object.entries(values)) {
        const field = frame.locator(`dialog [name="${name}"]`);
        if (await field.evaluate(element => element.tagName) === "SELECT")
            await field.selectOption(value);
        else
            await field.fill(value);
    }
    pressed.add("ok");
    await frame.click('dialog [data-act="ok"]');
    await frame.waitForSelector("dialog", { state: "detached" }).catch(async error => {
        const said = await frame.textContent("dialog [role=alert]").catch(() => "");
        throw new Error(`the dialog stays: ${said}`, { cause: error });
    });
}

/** Waits until the list or the title shows a state of a zone. */
export async function stateOf(frame, zone, state) {
    await frame.waitForFunction(([zone, state]) => window.zones.zones.get(zone)?.state === state && !window.zones.busy.has(zone), [zone, state]);
}

/** Waits until `is` returns true. */
export async function until(what, is) {
    for (const end = Date.now() + TIMEOUT; !is();) {
        assert(Date.now() < end, `never: ${what}`);
        await new Promise(resolve => setTimeout(resolve, 200));
    }
}

/** Returns the text of the terminal. */
export function terminalText(frame) {
    return frame.evaluate(() => {
        const buffer = document.getElementById("terminal").terminal.buffer.active;
        return Array.from({ length: buffer.length }, (_, at) => buffer.getLine(at).translateToString(true)).join("\n").trim();
    });
}

/** Waits until the terminal shows a text. */
export async function waitForTerminal(frame, pattern) {
    const end = Date.now() + TIMEOUT;
    for (;;) {
        const text = await terminalText(frame);
        if (pattern.test(text))
            return text;
        assert(Date.now() < end, `the terminal shows ${JSON.stringify(text)}, expected ${pattern}`);
        await new Promise(resolve => setTimeout(resolve, 200));
    }
}

/** Shows a tab of a zone. */
export async function visit(page, url, zone, tab) {
    await page.goto(`${url}#/${zone}/${tab}`);
    await page.waitForSelector(`[data-tab="${tab}"][aria-current="page"]`);
}

/** Runs a program of zones and returns the JSON that it prints. */
export const json = (...words) => JSON.parse(zones(...words));

/** Returns true if zoneadm has a subcommand. */
export const has = subcommand => new RegExp(`^\\s*${subcommand}\\b`, "m").test(zones("zoneadm", "--help"));

/** Returns the buttons that all tests of this run have pressed. */
export function pressedSoFar() {
    const names = existsSync(PRESSED) ? readFileSync(PRESSED, "utf8").split("\n") : [];
    return new Set(names.filter(name => name !== ""));
}

/** Ends the test: fails if the page had a fault. */
export async function close({ browser, faults }) {
    await browser.close();
    appendFileSync(PRESSED, [...pressed].map(name => `${name}\n`).join(""));
    assert.deepEqual(faults, []);
}
