// The parts of the page of a zone: facts, processes, limits, configuration, terminal.

import { strict as assert } from "node:assert";
import { alone, answer, close, json, open, press, pressed, shot, until, visit, waitForTerminal, zones } from "./browser.mjs";

const url = alone(process.argv[2]);
const test = await open(url);
const { page } = test;
const row = zone => `.row[data-zone="${zone}"]`;


// Facts, processes, limits.
await visit(page, url, "web1", "overview");
await page.waitForFunction(() => window.zones.figures.get("web1")?.processes > 0);
await shot(page, "overview");
await press(page, "back");
await page.waitForSelector(row("web1"));
await visit(page, url, "web1", "processes");
await page.waitForSelector('tr[data-pid="1"]');
await press(page, "refresh");
await visit(page, url, "web1", "limits");
const lwps = await page.waitForSelector('tr[data-control="zone.max-lwps"]');
assert.match(await lwps.textContent(), /200/);
assert(await lwps.$("meter"), "a limit has a meter");
await shot(page, "limits");

// The configuration: zonecfg's own error, a change, a lost update, apply.
await visit(page, url, "web1", "config");
await page.waitForSelector('input[name="max-lwps"]');
await page.fill('input[name="max-lwps"]', "many");
await press(page, "save");
await page.waitForFunction(() => /max-lwps/.test(document.querySelector("form [role=alert]")?.textContent ?? ""));
await shot(page, "config");
assert.equal(json("zonecfg", "-z", "web1", "info", "-j")["max-lwps"], 200);
await page.fill('input[name="max-lwps"]', "300");
zones("zonecfg", "-z", "web1", 'set bootargs="-m verbose"');
await page.waitForSelector("[data-role=stale]:not([hidden])");
await press(page, "save");
await page.waitForFunction(() => /another digest/.test(document.querySelector("form [role=alert]")?.textContent ?? ""));
await press(page, "reload");
await page.waitForFunction(() => document.querySelector('input[name="bootargs"]')?.value === "-m verbose");
await page.fill('input[name="max-lwps"]', "300");
await page.click('details[data-resource="attr"] summary');
await press(page, "add-attr");
await page.fill('details[data-resource="attr"] input[name="name"]', "comment");
await page.selectOption('details[data-resource="attr"] select[name="type"]', "string");
await page.fill('details[data-resource="attr"] input[name="value"]', "made in a browser; really");
await press(page, "save");
await page.waitForFunction(() => document.querySelector("[data-role=commands]")?.textContent === "");
const stored = json("zonecfg", "-z", "web1", "info", "-j");
assert.equal(stored["max-lwps"], 300);
assert.deepEqual(stored.attr.map(one => one.value), ["made in a browser; really"]);
await press(page, "remove-attr", 'details[data-resource="attr"]');
await press(page, "save");
await until("attr is removed", () => json("zonecfg", "-z", "web1", "info", "-j").attr === undefined);
await press(page, "apply");
await page.waitForSelector("dialog[open]");
await answer(page);
assert(json("zoneadm", "-z", "web1", "rctl", "-j").some(one => one.control === "zone.max-lwps" && one.effective === "300"));

// The patch status.
await visit(page, url, "web1", "patches");
await page.waitForSelector('[data-fact="Last patch"]');
assert(Number(await page.textContent('[data-fact="Packages"] td:last-child')) > 0);

// The terminal: text, colours, size.
await visit(page, url, "web1", "console");
await page.waitForSelector("#terminal .xterm-rows");
await waitForTerminal(page, /:~#$/m);
await page.click("#terminal");
await page.keyboard.type("printf '%s-snow-\\342\\230\\203\\n' $((40+2))\n");
await waitForTerminal(page, /42-snow-\u2603/);
// The terminal has the text before its elements show it.
await page.waitForFunction(() => [...document.querySelectorAll("#terminal .xterm-rows span")].some(span => span.textContent.includes("42-snow")));
const colours = await page.evaluate(() => {
    const style = element => getComputedStyle(element);
    const screen = document.querySelector("#terminal .xterm-viewport");
    const letter = [...document.querySelectorAll("#terminal .xterm-rows span")].find(span => span.textContent.includes("42-snow"));
    return [style(screen).backgroundColor, style(letter).color];
});
assert.deepEqual(colours, ["rgb(0, 0, 0)", "rgb(232, 232, 232)"]);
await shot(page, "console");
await page.setViewportSize({ width: 900, height: 700 });
await page.keyboard.type("stty size\n");
const size = await page.evaluate(() => { const t = document.getElementById("terminal").terminal; return `${t.rows} ${t.cols}`; });
await waitForTerminal(page, new RegExp(`^${size}`, "m"));
await page.setViewportSize({ width: 1280, height: 800 });
await page.keyboard.type("exit\n");
await waitForTerminal(page, /\[ended/);
await press(page, "connect");
await page.selectOption('[data-act="terminal"]', "console");
pressed.add("terminal");
await waitForTerminal(page, /web1|console/i);
await close(test);
