// What changed in a zone between two moments, and the files of then.

import { errorBox, h, speak, table } from "./dom.js";
import { visible } from "./format.js";
import { follow, isUnknownCommand, run } from "./run.js";
import { may } from "./store.js";

/** Maximum number of changes that the page shows. */
const MAX_ROWS = 1000;

/** Maximum number of characters of a file that the page shows. */
const MAX_TEXT = 100000;

/** The kinds of changes that have a colour. */
const KINDS = ["added", "removed", "modified", "renamed"];

/** Returns the words that name a path of then for `zoneadm files`. A path that is no UTF-8 has its
 *  bytes in base64. */
export function pathOf(one) {
    const [path, bytes] = one.from === undefined ? [one.path, one.path_bytes] : [one.from, one.from_bytes];
    return bytes === undefined ? { options: [], path } : { options: ["-b"], path: bytes };
}

/** Fills `place` with the changes from snapshot `from` until snapshot `until`, or until now if that is
 *  null. Returns a function that ends the comparison. */
export function changes(place, zone, from, until) {
    const body = h("tbody");
    const count = h("p", { class: "dim", role: "status" }, "Comparing…");
    const error = errorBox();
    const file = h("div");
    place.replaceChildren(count, error, table("Changes", ["Change", "Path", "Type", ""], body), file);
    let seen = 0;
    const say = end => {
        const more = seen > MAX_ROWS ? `, the first ${MAX_ROWS} are shown` : "";
        count.textContent = seen === 0 && end ? "Nothing has changed." : `${seen} changes${more}${end ? "" : "…"}`;
    };
    const take = one => {
        if (typeof one.path !== "string")
            return;
        seen++;
        if (seen <= MAX_ROWS)
            body.append(row(zone, from, until, one, file, error));
        if (seen % 100 === 0)
            say(false);
    };
    const words = ["zoneadm", "-z", zone, "diff", "-j", from, ...(until ? [until] : [])];
    return follow(words, take, why => {
        say(true);
        // Some files may be compared although others cannot.
        count.hidden = why !== null && seen === 0;
        if (why !== null)
            error.show(isUnknownCommand(why) ? "These programs cannot compare snapshots: zoneadm has no diff for you." : why);
    });
}

function row(zone, from, until, one, place, error) {
    const kind = KINDS.includes(one.change) ? one.change : "";
    const path = one.from ? `${visible(one.from)} → ${visible(one.path)}` : visible(one.path);
    const old = pathOf(one);
    const words = task => ["zoneadm", "-z", zone, "files", task, ...old.options, from, old.path];
    const buttons = [];
    if (one.type === "file" && kind !== "added" && may(zone, "root", "login"))
        buttons.push(h("button", { type: "button", "data-act": "show-file", onclick: () => show(words("cat"), `${path} in ${from}`, place, error) }, "Show"));
    // Only a file of then can come back into the zone of now.
    if (kind !== "added" && !until && may(zone, "root", "login", "manage")) {
        buttons.push(h("button", { type: "button", "data-act": "restore", onclick: async event => {
            event.target.disabled = true;
            error.show(null);
            try {
                await run(words("restore"));
                speak(`${path} restored`);
                event.target.replaceWith(h("span", { class: "dim" }, "restored"));
            } catch (why) {
                error.show(unknown(why));
                event.target.disabled = false;
            }
        } }, "Restore"));
    }
    return h("tr", { "data-path": one.path }, h("td", { class: `change ${kind}` }, one.change), h("td", { class: "path" }, path),
        h("td", {}, [one.type ?? "", ...one.what ?? []].join(", ")), h("td", { class: "bar end" }, buttons));
}

/** Shows the text that a file had then. */
async function show(words, title, place, error) {
    try {
        const text = await run(words);
        const lines = text.slice(0, MAX_TEXT).split("\n").map(visible).join("\n");
        const cut = text.length > MAX_TEXT ? `\n… the first ${MAX_TEXT} characters` : "";
        place.replaceChildren(h("h3", {}, title), h("pre", { class: "file", tabindex: "0" }, lines + cut));
        place.scrollIntoView({ block: "nearest" });
    } catch (why) {
        error.show(unknown(why));
    }
}

function unknown(why) {
    return isUnknownCommand(why) ? "These programs cannot read files of snapshots: zoneadm has no files for you." : why;
}
