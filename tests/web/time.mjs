// Snapshots and the slider, ways back, boot environments, log; phone and dark.

import { strict as assert } from "node:assert";
import { alone, answer, close, has, json, open, press, pressed, shot, stateOf, visit, zones } from "./browser.mjs";

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


// Snapshots: take, slide, look, clone, go back, destroy.
zones("zlogin", "web1", "echo first >/var/word");
await visit(page, url, "web1", "time");
await press(page, "snapshot");
await answer(page, { name: "first" });
await page.waitForSelector('tr[data-snapshot="first"]');
zones("zlogin", "web1", "echo second >/var/word; touch /var/new");
await new Promise(resolve => setTimeout(resolve, 1100));
zones("zoneadm", "-z", "web1", "snapshot", "second");
await page.waitForSelector('tr[data-snapshot="second"]');
await page.focus('[data-act="slider"]');
pressed.add("slider");
await page.keyboard.press("End");
assert.equal(await page.textContent("[data-role=then]"), "Now");
await page.keyboard.press("ArrowLeft");
assert.match(await page.getAttribute('[data-act="slider"]', "aria-valuetext"), /^second,/);
await page.keyboard.press("Home");
assert.match(await page.getAttribute('[data-act="slider"]', "aria-valuetext"), /^first,/);
await page.waitForSelector('tr[data-path="/var/word"]');
assert.equal(await page.textContent('tr[data-path="/var/word"] .change'), "modified");
assert.equal(await page.textContent('tr[data-path="/var/new"] .change'), "added");
await shot(page, "changes");
if (has("files")) {
    await press(page, "show-file", 'tr[data-path="/var/word"]');
    await page.waitForFunction(() => document.querySelector("pre.file")?.textContent === "first\n");
    await press(page, "restore", 'tr[data-path="/var/word"]');
    await page.waitForFunction(() => /restored/.test(document.querySelector('tr[data-path="/var/word"]').textContent));
    assert.equal(zones("zlogin", "web1", "cat /var/word"), "first\n");
} else {
    await page.click('tr[data-path="/var/word"] [data-act="restore"]');
    await page.waitForFunction(() => /cannot read files/.test(document.querySelector(".pane")?.textContent ?? ""));
}
await page.selectOption('[data-act="until"]', "second");
pressed.add("until");
await shot(page, "time");
await press(page, "choose", 'tr[data-snapshot="first"]');
await press(page, "clone-then");
await answer(page, { name: "then" });
await stateOf(page, "then", "running");
assert.equal(zones("zlogin", "then", "cat /var/word"), "first\n");
zones("zoneadm", "-z", "then", "halt");
await timed("whole zone back", async () => {
    await press(page, "go-back");
    await answer(page);
    await page.waitForFunction(() => !window.zones.busy.has("web1") && window.zones.zones.get("web1").state === "running");
});
assert.equal(zones("zlogin", "web1", "cat /var/word; ls /var/new 2>/dev/null || true"), "first\n");
await shot(page, "back");

// Forward again by the boot environment of before; another one is made and destroyed.
await visit(page, url, "web1", "environments");
const before = json("zoneadm", "-z", "web1", "beadm", "list", "-j").find(one => !one.active_now).name;
await press(page, "activate", `tr[data-environment="${before}"]`);
await answer(page);
await page.waitForFunction(() => !window.zones.busy.has("web1") && window.zones.zones.get("web1").state === "running");
assert.equal(zones("zlogin", "web1", "ls /var/new"), "/var/new\n");
await press(page, "create-environment");
await answer(page, { name: "spare" });
await page.waitForSelector('tr[data-environment="spare"]');
await shot(page, "environments");
await press(page, "destroy-environment", 'tr[data-environment="spare"]');
await answer(page);
await page.waitForSelector('tr[data-environment="spare"]', { state: "detached" });
await visit(page, url, "web1", "time");
await page.waitForSelector('tr[data-snapshot="second"]');
await press(page, "destroy-snapshot", 'tr[data-snapshot="second"]');
await answer(page);
await page.waitForSelector('tr[data-snapshot="second"]', { state: "detached" });

// The log.
await visit(page, url, "web1", "log");
await page.waitForFunction(() => /snapshot first taken/.test(document.querySelector("pre.log").textContent));
await page.selectOption('[data-act="source"]', "console");
pressed.add("source");
await page.waitForFunction(() => document.querySelectorAll("pre.log .messages").length === 0);

// Phone, dark.
await page.setViewportSize({ width: 390, height: 844 });
await press(page, "back");
await page.waitForSelector(row("web1"));
const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
assert(!wide, "nothing is wider than a phone");
await shot(page, "phone");
await page.emulateMedia({ colorScheme: "dark" });
await page.waitForFunction(() => getComputedStyle(document.body).backgroundColor === "rgb(21, 21, 21)");
await shot(page, "phone-dark");
console.log(`milliseconds: ${JSON.stringify(times)}`);
await close(test);
