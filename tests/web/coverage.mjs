// Compares the buttons that the tests of this run pressed with all that the page can make.

import { strict as assert } from "node:assert";
import { readFileSync, readdirSync } from "node:fs";
import { has, pressedSoFar } from "./browser.mjs";

// Older programs have no files.
const others = has("files") ? [] : ["show-file", "restore"];
const known = new Set();
for (const file of readdirSync("web/src").filter(name => name.endsWith(".js"))) {
    const text = readFileSync(`web/src/${file}`, "utf8");
    for (const [, name] of text.matchAll(/(?:"data-act": |button\()"([a-z-]+)"/g))
        known.add(name);
    // The table of buttons of act.js: name and label.
    for (const [, name] of text.matchAll(/^ {4}\["([a-z]+)", "[A-Z][a-z ]+", \[/gm))
        known.add(name);
}
const pressed = pressedSoFar();
const missed = [...known].filter(name => !pressed.has(name) && !others.includes(name));
assert.deepEqual(missed, [], "buttons that no test presses");
assert(known.size > 30, `found only ${known.size} buttons in the source`);
console.log(`pressed ${pressed.size} kinds of buttons and fields; not pressed: ${others.join(", ")}`);
