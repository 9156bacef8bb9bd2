// The snapshots of a zone: a slider through time, what has changed since then, and the ways back.

import { act, confirm, dialog, field } from "./act.js";
import { changes } from "./changes.js";
import { createDialog } from "./create.js";
import { errorBox, h, table } from "./dom.js";
import { NAME_PATTERN } from "./environments.js";
import { bytes, span, when } from "./format.js";
import { run, runJson } from "./run.js";
import { STEPS, marks, nearest, places } from "./scale.js";
import { isRoot, listen, may, refresh } from "./store.js";

/** Milliseconds after the last move of the slider before two moments are compared. */
const COMPARE_DELAY = 250;

export function timeTab(pane, name) {
    const range = h("input", { type: "range", min: 0, max: STEPS, value: STEPS, "aria-label": "Time", "data-act": "slider" });
    const ticks = h("div", { class: "ticks", "aria-hidden": "true" });
    const scale = h("div", { class: "marks", "aria-hidden": "true" });
    const chosen = h("h2", { class: "then", "data-role": "then" });
    const small = h("p", { class: "dim" });
    const until = h("select", { "aria-label": "Compare with", "data-act": "until" });
    const error = errorBox();
    const ways = h("div", { class: "bar" });
    const difference = h("div");
    const list = h("tbody");
    const take = h("button", { type: "button", class: "primary", "data-act": "snapshot", onclick: () => snapshotDialog(name, load) }, "Take snapshot");
    take.hidden = !may(name, "root", "manage");
    pane.replaceChildren(
        h("div", { class: "card" }, h("div", { class: "bar" }, chosen, h("span", { class: "grow" }), take), small,
            h("div", { class: "slider" }, ticks, range, scale), error, ways,
            h("p", { class: "bar" }, h("label", {}, "Changes from then until ", until)), difference),
        h("div", { class: "card" }, table("Snapshots", ["Name", "Made", "Frees", ""], list)));
    let snapshots = [];
    let at = 0;
    let spots = [];
    let timer = null;
    let stop = () => {};

    async function load(selected) {
        try {
            snapshots = await read(name);
            error.show(null);
        } catch (why) {
            snapshots = [];
            error.show(why);
        }
        const now = Date.now() / 1000;
        spots = places(snapshots.map(one => one.created), now);
        const oldest = snapshots.length ? now - snapshots[0].created : 0;
        ticks.replaceChildren(...snapshots.map((one, index) => {
            const tick = h("i", { class: one.name.split("-")[0] === "auto" ? `auto ${one.name.split("-")[1]}` : "" });
            tick.style.left = `${spots[index] / STEPS * 100}%`;
            return tick;
        }));
        scale.replaceChildren(...marks(oldest).map(([label, place]) => {
            const mark = h("span", {}, label);
            mark.style.left = `${place / STEPS * 100}%`;
            return mark;
        }));
        until.replaceChildren(h("option", { value: "" }, "now"), ...snapshots.map(one => h("option", { value: one.name }, `${one.name}, ${when(one.created)}`)));
        list.replaceChildren(...[...snapshots].reverse().map(one => listRow(name, one, load, () => choose(snapshots.indexOf(one)))));
        const wanted = snapshots.findIndex(one => one.name === selected);
        choose(wanted >= 0 ? wanted : Math.min(at, snapshots.length));
    }

    function choose(index) {
        at = index;
        const one = snapshots[at];
        range.value = one ? spots[at] : STEPS;
        const age = one ? `${span(Date.now() / 1000 - one.created)} ago` : "";
        chosen.textContent = one ? when(one.created) : "Now";
        small.textContent = one ? `${one.name}, ${age}` : snapshots.length ? "Move the slider to a snapshot." : "There are no snapshots yet.";
        range.setAttribute("aria-valuetext", one ? `${one.name}, ${age}` : "now");
        [...ticks.children].forEach((tick, index) => tick.classList.toggle("on", index === at));
        ways.replaceChildren(...(one ? waysBack(name, one, load) : []));
        until.disabled = !one;
        clearTimeout(timer);
        stop();
        difference.replaceChildren();
        if (one)
            timer = setTimeout(() => { stop = changes(difference, name, one.name, until.value || null); }, COMPARE_DELAY);
    }

    range.addEventListener("input", () => choose(nearest(spots, Number(range.value))));
    range.addEventListener("keydown", event => {
        const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity }[event.key];
        if (step === undefined)
            return;
        event.preventDefault();
        choose(Math.max(0, Math.min(snapshots.length, at + step)));
    });
    until.addEventListener("change", () => choose(at));
    at = Infinity;
    load();
    const unlisten = listen(event => event?.event === "snapshot" && event.zone === name && load(snapshots[at]?.name));
    return () => {
        unlisten();
        clearTimeout(timer);
        stop();
    };
}

/** Returns the snapshots, oldest first. Their sizes, which take long to find, are left out if the
 *  programs can do that. */
async function read(name) {
    const words = ["zoneadm", "-z", name, "snapshots", "-j"];
    const rows = await runJson([...words, "--no-size"]).catch(error => {
        if (/--no-size|invalid option|not expected here/.test(error.message))
            return runJson(words);
        throw error;
    });
    return rows.sort((a, b) => a.created - b.created);
}

/** Returns the buttons that bring a whole zone back. */
function waysBack(name, one, load) {
    const ways = [];
    const button = (id, label, onclick) => h("button", { type: "button", "data-act": id, onclick }, label);
    if (may(name, "root", "manage")) {
        const environment = `back-${Date.now().toString(36)}`;
        const text = `${name} reboots as it was at ${when(one.created)}. The present state stays as a boot environment, so you can go forward again.`;
        const beadm = ["zoneadm", "-z", name, "beadm"];
        const go = () => act(name, "going back", [...beadm, "create", "-e", one.name, environment], [...beadm, "activate", "--now", environment]).then(() => load(one.name));
        ways.push(button("go-back", "Take the whole zone back", () => confirm(`Take ${name} back?`, text, "Take back", go)));
    }
    if (isRoot())
        ways.push(button("clone-then", "Clone from then", () => createDialog(name, one.name)));
    return ways;
}

function listRow(name, one, load, choose) {
    const words = ["zoneadm", "-z", name, "destroy-snapshot", one.name];
    const destroy = () => confirm(`Destroy snapshot ${one.name}?`, "The zone cannot go back to it any more.", "Destroy", () => act(name, "destroying a snapshot", words).then(() => load()));
    return h("tr", { "data-snapshot": one.name },
        h("td", {}, h("button", { type: "button", class: "link", "data-act": "choose", onclick: choose }, one.name)), h("td", {}, when(one.created)),
        h("td", { class: "number" }, bytes(one.used_bytes)),
        h("td", { class: "bar end" }, may(name, "root", "manage") ? h("button", { type: "button", class: "danger", "data-act": "destroy-snapshot", onclick: destroy }, "Destroy") : null));
}

function snapshotDialog(zone, load) {
    const stamp = new Date().toISOString().slice(0, 19).replaceAll(":", "");
    const input = h("input", { name: "name", type: "text", required: true, pattern: NAME_PATTERN, value: `web-${stamp}`, autocomplete: "off" });
    dialog("Take a snapshot", [field("Name", input)], "Take", async values => {
        await run(["zoneadm", "-z", zone, "snapshot", values.name]);
        await refresh();
        await load(values.name);
    });
}
