// A user who may use sudo logs in, gets administrative access in Cockpit, and has the page of root.

import { strict as assert } from "node:assert";
import { close, json, open, press, shot, stateOf } from "./browser.mjs";

const url = process.argv[2];
const password = process.env.ZONES_WEB_PASSWORD;
const test = await open(`${url}/zones`);
const { page } = test;
await page.fill("#login-user-input", process.env.ZONES_WEB_USER);
await page.fill("#login-password-input", password);
await page.click("#login-button");
const frame = async () => {
    await page.waitForSelector('iframe[name="cockpit1:localhost/zones"]');
    return page.frame({ name: "cockpit1:localhost/zones" });
};
await (await frame()).waitForSelector('.row[data-zone="web10"]');
assert.equal(await (await frame()).isVisible('[data-act="create"]'), false);
await page.click("button:has-text('Limited access')");
await page.fill("input[type=password]:visible", password);
await page.click("button:has-text('Authenticate')");
// The page is loaded again with the rights of root.
await (await frame()).waitForSelector('[data-act="create"]:visible');
await press(await frame(), "boot", '.row[data-zone="web10"]');
await stateOf(await frame(), "web10", "running");
assert.equal(json("zoneadm", "-z", "web10", "list", "-j")[0].state, "running");
await shot(page, "sudo");
await close(test);
