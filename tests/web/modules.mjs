// Tests the modules of the page that need no browser.

import { strict as assert } from "node:assert";
import { readFileSync, readdirSync } from "node:fs";

const source = `${process.cwd()}/web/src`;
const load = name => import(`${source}/${name}.js`);

const scale = await load("scale");
{
    // The scale has today on a good part of its width, and no snapshot hides another.
    const now = 1e9;
    const ages = [365, 300, 200, 100, 50, 25, 12, 6, 3, 2, 1].map(days => days * 86400);
    const created = [...ages, ...[5, 4, 3, 2, 1].map(hours => hours * 3600)].map(age => now - age);
    const places = scale.places(created, now);
    assert.equal(places[0], 0);
    assert(places.every((place, at) => at === 0 || place > places[at - 1]), `${places}`);
    assert(places.at(-5) < scale.STEPS * 0.65, "the last five hours have a third of the scale");
    created.forEach((_, at) => assert.equal(scale.nearest(places, places[at]), at));
    assert.equal(scale.nearest(places, scale.STEPS), created.length);
    assert.deepEqual(scale.places([], now), []);
    assert.deepEqual(scale.places([now, now, now], now).length, 3);
    assert.equal(new Set(scale.places(Array(500).fill(now - 10), now)).size, 500);
}

const { progressOf } = await load("run");
assert.deepEqual(progressOf('{"zone":"a","verb":"suspend","step":"suspend","done":5,"total":10,"unit":"bytes"}'), { text: "suspend 50 %" });
assert.deepEqual(progressOf('{"zone":"a","verb":"install","step":"Making files."}'), { text: "Making files." });
assert.deepEqual(progressOf('{"zone":"a","verb":"boot","error":"no","status":1}'), { status: 1, error: "no" });
for (const other of ["no JSON", '{"step":"ended","done":1,"total":2,"unit":"zones"}', '{"message":"odd"}'])
    assert.equal(progressOf(other), null);

const { commandsOf, quoted } = await load("commands");
const schema = JSON.parse(readFileSync("docs/zone.schema.json", "utf8"));
{
    const before = { autoboot: false, "max-lwps": 100, fs: [{ dir: "/data", special: "/srv/a b", type: "lofs" }], "capped-memory": { physical: 1024 } };
    const same = { autoboot: false, "max-lwps": "100" };
    const none = { properties: same, resources: {} };
    assert.deepEqual(commandsOf(schema, before, none), []);
    const commands = commandsOf(schema, before, {
        properties: { autoboot: true, "max-lwps": "" },
        resources: {
            fs: [{ was: before.fs[0], now: { dir: "/data", special: "/srv/c", type: "lofs" } }, { was: null, now: { dir: "/x", special: "tmpfs", type: "tmpfs" } }],
            "capped-memory": [{ was: before["capped-memory"], now: null }],
        },
    });
    assert.deepEqual(commands, [
        "set autoboot=true", "clear max-lwps",
        'select fs dir=/data special="/srv/a b" type=lofs', "set special=/srv/c", "end",
        "add fs", "set dir=/x", "set special=tmpfs", "set type=tmpfs", "end",
        "remove -F capped-memory",
    ]);
    // A value cannot become a second command.
    assert.equal(quoted("a;b"), '"a;b"');
    assert.throws(() => quoted('a"; set autoboot=true'), /double quote/);
    assert.throws(() => quoted("a\nset autoboot=true"), /more than one line/);
}

const { bytes, byName, span, visible } = await load("format");
{
    assert.equal(bytes(0), "0 B");
    assert.equal(bytes(1536), "1.5 K");
    assert.equal(bytes(null), "-");
    assert.equal(span(3700), "1 h 1 min");
    assert.equal(span(0.2), "0 s");
    assert.deepEqual(["web10", "web2", "global", "db"].sort(byName), ["global", "db", "web2", "web10"]);
    assert.equal(visible("a\u001b[31m\u202egpj.exe\n"), "a\\u{1b}[31m\\u{202e}gpj.exe\\u{a}");
}

{
    // The page has no way to parse text as markup, and no shell reads its commands.
    for (const name of readdirSync(source).filter(name => name.endsWith(".js"))) {
        const text = readFileSync(`${source}/${name}`, "utf8");
        for (const way of ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "createContextualFragment", "eval(", "new Function", "\"sh\"", "'sh'"])
            assert(!text.includes(way), `${name} has ${way}`);
    }
}
