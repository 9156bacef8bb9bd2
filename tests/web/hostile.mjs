// Text from a zone reaches the page as text only: names of processes and files, lines of the log.

import { strict as assert } from "node:assert";
import { alone, close, open, shot, zones } from "./browser.mjs";

const MARKUP = "<img src=x onerror=window.hit=1><script>window.hit=1</script>";
const test = await open(alone(process.argv[2]));
const { page } = test;
const text = selector => page.evaluate(selector => document.querySelector(selector)?.textContent ?? "", selector);
await page.waitForSelector('.row[data-zone="web1"]');

// A process whose arguments are markup and control characters.
zones("zlogin", "web1", `bash -c 'exec -a "$0" sleep 300' "$(printf '${MARKUP}\\033[31mred\\342\\200\\256gpj')" >/dev/null 2>&1 &`);
await page.goto(`${alone(process.argv[2])}#/web1/processes`);
await page.waitForFunction(() => /onerror/.test(document.querySelector("tbody")?.textContent ?? "") || (document.querySelector('[data-act="refresh"]')?.click(), false), null, { polling: 1000 });
const shown = await text("tbody");
assert(shown.includes("<script>"), "markup is shown as text");
assert(!/[\u001b\u202e]/.test(shown), "control characters are escapes");
await shot(page, "hostile");

// A line of the console, which the zone writes.
zones("zlogin", "web1", `printf '${MARKUP}\\033]0;title\\007\\n' >/dev/console`);
await page.goto(`${alone(process.argv[2])}#/web1/log`);
await page.waitForFunction(() => /<script>/.test(document.querySelector("pre.log")?.textContent ?? ""));

// Files whose names are markup, in a comparison.
zones("zoneadm", "-z", "web1", "snapshot", "hostile");
zones("zlogin", "web1", `mkdir -p /var/h; cd /var/h; touch -- '<img src=x onerror=window.hit=1>' "$(printf 'new\\nline\\342\\200\\256')" "-rf" '$(reboot)'`);
await page.goto(`${alone(process.argv[2])}#/web1/time`);
await page.waitForSelector('tr[data-snapshot="hostile"]');
await page.click('tr[data-snapshot="hostile"] [data-act="choose"]');
await page.waitForFunction(() => /onerror/.test(document.querySelector('table[aria-label="Changes"]')?.textContent ?? ""));
const names = await text('table[aria-label="Changes"]');
assert(names.includes("$(reboot)") && names.includes("\\u{202e}") && names.includes("new\\u{a}line"), names);

// The page has no element of the zone, and ran nothing of it.
assert.equal(await page.evaluate(() => window.hit), undefined);
assert.equal(await page.evaluate(() => document.querySelectorAll("main img, main script").length), 0);
// Its policy would refuse a script of a zone even if the page made one.
const refused = await page.evaluate(() => new Promise(resolve => {
    document.addEventListener("securitypolicyviolation", event => resolve(event.violatedDirective), { once: true });
    const script = document.createElement("script");
    script.textContent = "window.hit = 1";
    document.body.append(script);
    setTimeout(() => resolve("nothing"), 2000);
}));
assert.match(refused, /script-src/);
assert.equal(await page.evaluate(() => window.hit), undefined);
test.faults = test.faults.filter(fault => !/Content Security Policy|Content-Security-Policy/i.test(fault));
zones("zoneadm", "-z", "web1", "destroy-snapshot", "hostile");
await close(test);
