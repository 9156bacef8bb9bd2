// Makes the picture of docs/web.md: target/web/shots/picture.png. Not part of the tests.

import { spawn } from "node:child_process";
import { close, open, shot } from "./browser.mjs";

/** Seconds of load that the plots of the picture show. */
const SECONDS = 100;

const load = ["web1", "web2"].map((zone, at) => spawn(`${process.env.ZONES_BIN}/zlogin`, ["-n", zone, `end=$(($(date +%s) + ${SECONDS + 20})); while [ $(date +%s) -lt $end ]; do timeout 0.${at + 2} sh -c 'while :; do :; done'; head -c $((RANDOM % 9 + 1))000000 /usr/bin/perl >/tmp/x; sleep $((RANDOM % 3 + ${at + 1})); done`], { stdio: "ignore" }));
const test = await open(`${process.argv[2]}/zones`);
const frame = test.page.frame({ name: "cockpit1:localhost/zones" }) ?? await (async () => {
    await test.page.waitForSelector('iframe[name="cockpit1:localhost/zones"]');
    return test.page.frame({ name: "cockpit1:localhost/zones" });
})();
await frame.waitForSelector('.row[data-zone="web1"]');
await test.page.waitForTimeout(SECONDS * 1000);
await shot(test.page, "picture");
load.forEach(one => one.kill());
test.faults.length = 0;
await close(test);
