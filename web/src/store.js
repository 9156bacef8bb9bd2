// The zones as the page knows them: their list, their figures, their events.

import { byName } from "./format.js";
import { follow, runJson } from "./run.js";

/** Number of samples in a plot. */
export const POINTS = 60;

/** Seconds between two samples. */
export const INTERVAL = 2;

/** Milliseconds before a command that ended is started again. */
const RESTART_DELAY = 5000;

/** Milliseconds in which several events lead to one list. */
const LIST_DELAY = 150;

export const store = {
    zones: new Map(),
    /** The last figures of each active zone, and of the host. */
    figures: new Map(),
    host: null,
    history: new Map(),
    /** The commands that run, by zone. */
    busy: new Map(),
    /** The last error of each source: list, monitor, figures, action. */
    errors: new Map(),
    samples: 0,
    lists: 0,
};

const listeners = new Set();
let listing = null;

/** Calls `listener` after each change, with the event of a zone if one is the reason. Returns a
 *  function that ends this. */
export function listen(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
}

/** Records the error of a source, or null. */
export function fail(source, text) {
    if (text === null)
        store.errors.delete(source);
    else
        store.errors.set(source, text);
}

/** Returns the errors of all sources. */
export function errorText() {
    return [...store.errors.values()].join("\n");
}

export function changed(event) {
    listeners.forEach(listener => listener(event));
}

/** Lists all zones again. */
export async function refresh() {
    try {
        const rows = await runJson(["zoneadm", "list", "-cj"]);
        rows.sort((a, b) => byName(a.name, b.name));
        store.zones = new Map(rows.map(zone => [zone.name, zone]));
        for (const name of [...store.figures.keys()]) {
            if (!store.zones.get(name)?.id && name !== "global") {
                store.figures.delete(name);
                store.history.delete(name);
            }
        }
        fail("list", null);
    } catch (error) {
        fail("list", `zoneadm list: ${error.message}`);
    }
    store.lists++;
    changed();
}

function refreshSoon() {
    listing ??= setTimeout(() => {
        listing = null;
        refresh();
    }, LIST_DELAY);
}

/** Follows the events of zones, as long as the page is open. */
export function watch() {
    const take = event => {
        fail("monitor", null);
        if (event.event === "state" || event.event === "config" || event.event === "snapshot")
            refreshSoon();
        changed(event);
    };
    follow(["zoneadm", "monitor", "-j"], take, error => {
        fail("monitor", `zoneadm monitor: ${error?.message ?? "it ended"}`);
        changed();
        setTimeout(() => { refresh(); watch(); }, RESTART_DELAY);
    });
}

/** Follows the figures of zones. Returns a function that ends this. */
export function measure(options) {
    let stop = () => {};
    let timer = null;
    const start = () => {
        stop = follow(["zonestat", "-j", ...options, String(INTERVAL)], sample, error => {
            fail("figures", `zonestat: ${error?.message ?? "it ended"}`);
            changed();
            timer = setTimeout(start, RESTART_DELAY);
        });
    };
    start();
    return () => {
        clearTimeout(timer);
        stop();
    };
}

/** Records a sample of zonestat. */
export function sample(line) {
    fail("figures", null);
    store.host = line;
    store.samples++;
    push("", line.total, 1);
    for (const zone of line.zones) {
        store.figures.set(zone.name, zone);
        push(zone.name, zone, zone.ran_seconds || INTERVAL);
    }
    changed();
}

function push(name, figures, seconds) {
    let past = store.history.get(name);
    if (!past)
        store.history.set(name, past = { cpu: [], memory: [], network: [], disk: [] });
    const traffic = (one, a, b) => one ? (one[a] + one[b]) / seconds : 0;
    past.cpu.push((figures.cpu_millionths ?? 0) / 1e4);
    past.memory.push(figures.physical_bytes ?? 0);
    past.network.push(traffic(figures.network, "bytes_in", "bytes_out"));
    past.disk.push(traffic(figures.disk, "bytes_in", "bytes_out"));
    for (const values of Object.values(past)) {
        if (values.length > POINTS)
            values.shift();
    }
}

/** Returns true if the caller may do something with a zone: `root`, or an authorization. */
export function may(name, ...auths) {
    const zone = store.zones.get(name);
    return !!zone && auths.some(auth => zone.may.includes(auth));
}

/** Returns true if the caller is root. */
export function isRoot() {
    return may("global", "root");
}
