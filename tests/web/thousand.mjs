// A list of a thousand zones whose figures change each second stays smooth: the page has elements for
// the visible rows only. The programs are fakes, so the figures are those of the page alone.

import { strict as assert } from "node:assert";
import { readFileSync } from "node:fs";
import { alone, close, open, press, pressed, shot, visit } from "./browser.mjs";

/** Milliseconds that a new sample may take to paint. */
const MAX_PAINT = 50;

/** Number of rows that may exist at once. */
const MAX_ROWS = 60;

const start = Date.now();
const test = await open(alone(process.argv[2]));
const { page } = test;
await page.waitForSelector('.row[data-zone="zone1"]');
const listed = Date.now() - start;
assert.equal(await page.textContent("[data-role=count]"), "1000 zones");
await page.waitForFunction(() => window.zones.samples >= 3);
const paints = [];
const rows = async () => page.$$eval(".rows .row", all => all.length);
assert(await rows() <= MAX_ROWS, `${await rows()} rows exist`);
for (const part of [0.1, 0.3, 0.5, 0.7, 1]) {
    await page.evaluate(part => { const frame = document.querySelector(".frame"); frame.scrollTop = frame.scrollHeight * part; }, part);
    await page.waitForTimeout(1200);
    paints.push(await page.evaluate(() => window.zones.paintMillis));
    assert(await rows() <= MAX_ROWS, `${await rows()} rows exist`);
}
await page.waitForSelector('.row[data-zone="zone1000"]');
await shot(page, "thousand");
await page.fill('[data-act="filter"]', "zone77");
assert.equal(await page.textContent("[data-role=count]"), "11 zones");
await page.fill('[data-act="filter"]', "");
const frames = await page.evaluate(() => new Promise(resolve => {
    const frame = document.querySelector(".frame");
    const gaps = [];
    let last = performance.now();
    const step = now => {
        gaps.push(now - last);
        last = now;
        frame.scrollTop = (frame.scrollTop + 300) % frame.scrollHeight;
        if (gaps.length < 120)
            requestAnimationFrame(step);
        else
            resolve(gaps.sort((a, b) => a - b));
    };
    requestAnimationFrame(step);
}));
const median = frames[60];
console.log(`1,000 zones: list shown after ${listed} ms; paint ${Math.max(...paints).toFixed(1)} ms at most; scrolling: median frame ${median.toFixed(1)} ms, longest ${frames.at(-1).toFixed(1)} ms`);
assert(Math.max(...paints) < MAX_PAINT, `a paint took ${paints} ms`);

// A kernel zone is suspended and migrated, with the progress of the command. Its text is no markup.
await visit(page, alone(process.argv[2]), "zone1", "overview");
await press(page, "suspend");
await page.waitForFunction(() => document.querySelector("#page, body").textContent.includes("suspending: suspend 50 %"));
await page.waitForFunction(() => !window.zones.busy.has("zone1"));
await press(page, "migrate");
await page.fill('dialog [name="target"]', "badhost");
await page.click('dialog [data-act="ok"]');
await page.waitForFunction(() => /badhost: no route/.test(document.querySelector("dialog [role=alert]").textContent));
await page.fill('dialog [name="target"]', "ssh://root@two");
await page.click('dialog [data-act="ok"]');
pressed.add("ok");
await page.waitForFunction(() => document.querySelector("dialog [data-role=progress]")?.textContent === "copying <b>memory</b>");
await page.waitForSelector("dialog", { state: "detached" });
const commands = readFileSync(`${process.env.ZONES_WEB_SCRATCH}/fake-commands`, "utf8").trim().split("\n");
assert.deepEqual(commands, [
    "--progress=json -z zone1 suspend", "--progress=json -z zone1 migrate badhost",
    "--progress=json -z zone1 migrate ssh://root@two",
]);
await close(test);
