// The processes of a zone, and its limits beside their use.

import { errorBox, h, table } from "./dom.js";
import { bytes, span, visible, when } from "./format.js";
import { runJson } from "./run.js";
import { listen, store } from "./store.js";

/** Maximum number of processes that the page shows. */
const MAX_PROCESSES = 500;

/** Shows a card with a table that is read again by a button and when the zone's state changes. */
function refreshed(pane, name, label, titles, command, rowsOf) {
    const body = h("tbody");
    const error = errorBox();
    const note = h("span", { class: "dim" });
    const read = async () => {
        try {
            const [rows, text] = rowsOf(await runJson(command));
            body.replaceChildren(...rows);
            note.textContent = text;
            error.show(null);
        } catch (why) {
            body.replaceChildren();
            error.show(why);
        }
    };
    const again = h("button", { type: "button", "data-act": "refresh", onclick: read }, "Refresh");
    pane.replaceChildren(h("div", { class: "card" }, h("div", { class: "bar" }, note, h("span", { class: "grow" }), again), error, table(label, titles, body)));
    read();
    let state = store.zones.get(name)?.state;
    return listen(() => {
        const now = store.zones.get(name)?.state;
        if (now !== state) {
            state = now;
            read();
        }
    });
}

export function processesTab(pane, name) {
    const titles = ["PID in the zone", "User", "Threads", "Memory", "CPU time", "Command"];
    return refreshed(pane, name, "Processes", titles, ["zps", "-z", name, "-j"], processes => {
        const rows = processes.slice(0, MAX_PROCESSES).map(one => h("tr", { "data-pid": one.zone_pid },
            h("td", { class: "number" }, one.zone_pid), h("td", {}, visible(one.user)), h("td", { class: "number" }, one.threads),
            h("td", { class: "number" }, bytes(one.rss_kib * 1024)), h("td", { class: "number" }, span(one.cpu_seconds)),
            h("td", { class: "path" }, visible(one.args || one.comm))));
        const more = processes.length - rows.length;
        return [rows, `${processes.length} processes${more > 0 ? `, the first ${MAX_PROCESSES} are shown` : ""}`];
    });
}

export function limitsTab(pane, name) {
    const titles = ["Control", "Limit", "Action", "Used", "", "Times reached"];
    return refreshed(pane, name, "Limits", titles, ["zoneadm", "-z", name, "rctl", "-j"], controls => {
        const shown = (one, value) => one.is_size && /^\d+$/.test(value) ? bytes(Number(value)) : value ?? "-";
        const rows = controls.map(one => {
            const limit = Number(one.effective ?? one.limit);
            const has = one.used !== null && Number.isFinite(limit) && limit > 0;
            const meter = has ? h("meter", { min: 0, max: limit, high: limit * 0.8, value: one.used, "aria-label": `${one.control}: used` }) : null;
            return h("tr", { "data-control": one.control }, h("td", {}, one.control),
                h("td", { class: "number" }, shown(one, one.limit)), h("td", {}, one.action ?? "-"),
                h("td", { class: "number" }, one.used === null ? "-" : shown(one, String(one.used))), h("td", {}, meter),
                h("td", { class: one.hits ? "number danger" : "number" }, one.hits ?? "-"));
        });
        return [rows, "Limits in force, beside their use. Change them in the configuration."];
    });
}

export function patchesTab(pane, name) {
    return refreshed(pane, name, "Patches", ["", ""], ["zonepatch", "status", "-j", "-z", name], rows => {
        const status = rows[0];
        if (!status)
            return [[], "zonepatch reports nothing about this zone."];
        const facts = [
            ["Packages", status.packages],
            ["Last patch", status.patch ? `${visible(status.patch)}${status.at ? `, ${when(status.at)}` : ""}` : "none"],
            ["Carried out", status.how ? visible(status.how) : "-"],
            ["On hold", status.held.map(visible).join(", ") || "-"],
            ["Behind the host", status.behind],
            ["Same packages as zones with", status.fingerprint ? status.fingerprint.slice(0, 12) : "-"],
        ];
        const line = (key, value, danger) => h("tr", { "data-fact": key },
            h("td", {}, key), h("td", { class: danger ? "danger" : null }, String(value)));
        return [
            [...facts.map(([key, value]) => line(key, value)), ...status.problems.map(text => line("Problem", visible(text), true))],
            "The state of the zone's packages. Patch zones with zonepatch.",
        ];
    });
}
