// A user without root logs in to Cockpit's shell, and administers the zone that names the user.

import { strict as assert } from "node:assert";
import { answer, close, open, press, shot, stateOf, waitForTerminal, zones } from "./browser.mjs";

const url = process.argv[2];
const test = await open(`${url}/zones`);
const { page } = test;
await page.fill("#login-user-input", process.env.ZONES_WEB_USER);
await page.fill("#login-password-input", process.env.ZONES_WEB_PASSWORD);
await page.click("#login-button");
await page.waitForSelector('iframe[name="cockpit1:localhost/zones"]');
const frame = page.frame({ name: "cockpit1:localhost/zones" });
await frame.waitForSelector('.row[data-zone="web1"]');
assert.match(await frame.textContent("[data-role=who]"), /not root/);
const row = zone => `.row[data-zone="${zone}"]`;
// Only the zone of the user has buttons, and none creates zones.
assert.equal(await frame.$(`${row("web2")} button`), null);
assert.equal(await frame.isVisible('[data-act="create"]'), false);
await frame.waitForFunction(() => window.zones.samples >= 2);
await shot(page, "delegated");
await press(frame, "shutdown", row("web1"));
await stateOf(frame, "web1", "installed");
assert.equal(zones("zoneadm", "-z", "web1", "list", "-p").split(":")[2], "installed");
await press(frame, "boot", row("web1"));
await stateOf(frame, "web1", "running");
await frame.click(`${row("web1")} a`);
await frame.waitForSelector('[data-tab="console"]');
await frame.click('[data-tab="console"]');
await frame.waitForSelector("#terminal .xterm-rows");
await frame.click("#terminal");
await page.keyboard.type("id -u; hostname\n");
await waitForTerminal(frame, /^0\s+web1/m);
await frame.click('[data-tab="time"]');
await press(frame, "snapshot");
await answer(frame, { name: "of-user" });
await frame.waitForSelector('tr[data-snapshot="of-user"]');
assert.equal(await frame.$('[data-act="clone-then"]'), null);
await press(frame, "destroy-snapshot", 'tr[data-snapshot="of-user"]');
await answer(frame);
await frame.waitForSelector('tr[data-snapshot="of-user"]', { state: "detached" });
// The configuration: a property of the zone is saved, one that reaches the host is refused.
await frame.click('[data-tab="config"]');
await frame.waitForSelector('input[name="autoboot"]');
await frame.click('input[name="autoboot"]');
await press(frame, "save");
await frame.waitForFunction(() => document.querySelector("[data-role=commands]")?.textContent === "" && document.querySelector('input[name="autoboot"]').checked);
assert.match(zones("zonecfg", "-z", "web1", "info", "autoboot"), /true/);
await frame.fill('input[name="limitpriv"]', "default,sys_time");
await press(frame, "save");
await frame.waitForFunction(() => /only root may change limitpriv/.test(document.querySelector("form [role=alert]")?.textContent ?? ""));
await frame.click('[data-tab="log"]');
await frame.waitForFunction(() => /snapshot of-user destroyed/.test(document.querySelector("pre.log")?.textContent ?? ""));
await shot(page, "delegated-log");
// Another zone shows what everybody may see, and says that the rest is not for this user.
await frame.evaluate(() => { location.hash = "#/web2/console"; });
await frame.waitForFunction(() => /not authorized/.test(document.querySelector(".pane")?.textContent ?? ""));
await close(test);
