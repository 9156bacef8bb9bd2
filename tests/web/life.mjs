// The list of zones, and the life of zones: boot, shutdown, reboot, halt, create, clone, removal.

import { strict as assert } from "node:assert";
import { alone, answer, close, json, open, press, pressed, shot, stateOf, visit, zones } from "./browser.mjs";

const url = alone(process.argv[2]);
const test = await open(url);
const { page } = test;
const row = zone => `.row[data-zone="${zone}"]`;
const times = {};
async function timed(what, work) {
    const start = Date.now();
    await work();
    times[what] = Date.now() - start;
}


// The list: sorted by name, figures, filter, keyboard.
await timed("list", () => page.waitForSelector(row("web1")));
const names = () => page.$$eval(".rows .row", rows => rows.sort((a, b) => a.dataset.at - b.dataset.at).map(row => row.dataset.zone));
assert.deepEqual(await names(), ["master", "web1", "web2", "web10"]);
await page.waitForFunction(() => window.zones.samples >= 3);
const painted = await page.$eval(`${row("web1")} canvas`, canvas => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some(value => value > 0));
assert(painted, "the plot of web1 is drawn");
await shot(page, "list");
await page.fill('[data-act="filter"]', "web2");
pressed.add("filter");
assert.deepEqual(await names(), ["web2"]);
await page.fill('[data-act="filter"]', "");
await page.focus(`${row("master")} a`);
await page.keyboard.press("ArrowDown");
assert.equal(await page.evaluate(() => document.activeElement.textContent), "web1");

// The life of a zone from the list.
await timed("shutdown", async () => {
    await press(page, "shutdown", row("web2"));
    await stateOf(page, "web2", "installed");
});
await timed("boot", async () => {
    await press(page, "boot", row("web2"));
    await stateOf(page, "web2", "running");
});
await press(page, "reboot", row("web2"));
await page.waitForSelector("dialog[open]");
await press(page, "cancel", "dialog");
await press(page, "reboot", row("web2"));
const booted = json("zoneadm", "-z", "web2", "list", "-j")[0].id;
await answer(page);
await page.waitForFunction(id => window.zones.zones.get("web2").id !== id && !window.zones.busy.has("web2"), booted);
// An event of a command that another user gives.
await timed("event", async () => {
    zones("zoneadm", "-z", "web2", "halt");
    await stateOf(page, "web2", "installed");
});

// A boot that fails shows the message of zoneadm, and the next action removes it.
zones("zonecfg", "-z", "web2", "set ip-type=shared; add net; set physical=none0; set address=192.0.2.9/24; end");
await press(page, "boot", row("web2"));
await page.waitForFunction(() => /none0/.test(document.querySelector("[role=alert]").textContent));
assert.equal(json("zoneadm", "-z", "web2", "list", "-j")[0].state, "installed");
zones("zonecfg", "-z", "web2", "remove -F net");
await press(page, "boot", row("web2"));
await stateOf(page, "web2", "running");
assert.equal(await page.textContent("[role=alert]"), "");
zones("zoneadm", "-z", "web2", "halt");
await stateOf(page, "web2", "installed");

// A new zone from another, its page, its removal.
await press(page, "create");
await answer(page, { name: "made", source: "zone master" });
await stateOf(page, "made", "running");
await visit(page, url, "made", "overview");
await page.waitForFunction(() => window.zones.figures.has("made"));
await press(page, "halt");
await answer(page);
await stateOf(page, "made", "installed");
await press(page, "clone");
await answer(page, { name: "made2" });
await stateOf(page, "made2", "running");
zones("zoneadm", "-z", "made2", "halt");
await press(page, "uninstall");
await answer(page);
await stateOf(page, "made", "configured");
await press(page, "install");
await stateOf(page, "made", "installed");
await press(page, "uninstall");
await answer(page);
await stateOf(page, "made", "configured");
await press(page, "delete");
await answer(page);
await page.waitForSelector(row("web1"));
assert(!(await names()).includes("made"));
console.log(`milliseconds: ${JSON.stringify(times)}`);
await close(test);
